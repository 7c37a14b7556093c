"""Contexts, tensors, ranks."""
