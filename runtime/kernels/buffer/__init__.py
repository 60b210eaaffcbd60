"""Kernels on buffers (NHWC activations): what their rows, which stand in the rooms of the families, are made of."""
