"""Functions of each element: activations, arithmetic, comparisons, logic."""
