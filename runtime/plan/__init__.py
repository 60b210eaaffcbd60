"""The plan: a graph lowered to one target, and the binary files that carry it to a device."""
