"""Model conversion, lowering, kernels and the native runtime."""
