"""Lowering: a graph becomes a plan for one target."""
