"""Decides whether a series has become worse. Pure functions of points; docs/measurement.md gives the method."""
