"""farmrt, the native runtime in C, and its build."""
