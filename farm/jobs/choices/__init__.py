"""Choices over whole graphs: which is in force for a model on a device, and what launches cost there."""
