"""Published networks as ONNX with seeded weights, and other networks with their weights replaced by such ones."""

from runtime.zoo.catalogue import Description, build, describe, from_url, names
from runtime.zoo.reweight import light_models, reweight

__all__ = ["Description", "build", "describe", "from_url", "light_models", "names", "reweight"]
