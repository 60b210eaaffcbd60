"""Regions of images: RoiAlign, GridSample, proposals."""
