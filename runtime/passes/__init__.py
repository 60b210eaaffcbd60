"""Passes: each rewrites a graph in place without changing what it computes, and says what it changed."""
