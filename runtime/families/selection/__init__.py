"""Sorting, TopK, arg max, and which of overlapping boxes are kept."""
