"""Models in other engines than farmrt: on units that are open, as results and rows."""
