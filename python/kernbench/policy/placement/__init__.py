"""The placement of tensors."""
