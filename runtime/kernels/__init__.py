"""OpenCL kernels and the table that lists them."""
