"""Benchmarks of kernbench."""
