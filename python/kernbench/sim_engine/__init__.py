"""The engine that makes time pass."""
