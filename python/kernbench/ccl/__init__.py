"""Collectives between ranks."""
