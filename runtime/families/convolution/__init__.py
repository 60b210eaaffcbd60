"""Convolutions: direct, 1x1, depthwise, Winograd, deformable."""
