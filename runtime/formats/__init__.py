"""Data formats: which operators move with a transposition and how, and what order of axes each tensor was given in."""
