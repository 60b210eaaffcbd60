"""Has a series become worse? Pure functions over points: no clock, file, socket or store (docs/measurement.md)."""
