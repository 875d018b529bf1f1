"""What the tensors should be called."""
