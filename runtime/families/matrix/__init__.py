"""Products of matrices: Gemm, MatMul, fully connected layers, Einsum, Fourier transforms."""
