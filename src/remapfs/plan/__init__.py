"""What will be seen: virtual files made of extents."""
