"""What only moves elements: Concat, Slice, Pad, Transpose, Reshape."""
