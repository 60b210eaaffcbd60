"""Transpose movement: transpositions move through the operators between them until the fewest bytes are moved."""
