"""Quantised operators."""
