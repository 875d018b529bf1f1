"""Present a safetensors checkpoint under the names its loader wants, without copying a tensor."""
