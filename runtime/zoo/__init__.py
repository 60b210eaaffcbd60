"""Builds published networks as ONNX with seeded random weights, and gives such weights to other networks."""

from runtime.zoo.catalogue import Description, build, describe, from_url, names
from runtime.zoo.reweight import light_models, reweight

__all__ = ["Description", "build", "describe", "from_url", "light_models", "names", "reweight"]
