"""Reading and writing at indices: Gather, Scatter and their kin."""
