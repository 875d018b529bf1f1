"""Files on disk: shards, indexes, configs."""
