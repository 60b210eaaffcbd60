"""Normalisation by batch, layer, group and neighbours; softmax."""
