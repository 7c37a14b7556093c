"""Algorithms of collectives."""
