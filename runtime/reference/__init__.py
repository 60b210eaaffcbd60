"""The reference executor: runs plan files with pyopencl, as an oracle for farmrt in tests."""
