"""Resize, by nearest or interpolated pixels."""
