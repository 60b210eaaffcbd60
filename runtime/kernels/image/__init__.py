"""Kernels on RGBA 2D images: what their rows, which stand in the rooms of the families, are made of."""
