"""Transposed convolutions."""
