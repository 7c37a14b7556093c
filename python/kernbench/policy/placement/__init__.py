"""Where tensors are placed."""
