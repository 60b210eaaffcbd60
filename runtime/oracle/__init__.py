"""Executes graphs in NumPy: what passes, lowering and kernels are judged by."""
