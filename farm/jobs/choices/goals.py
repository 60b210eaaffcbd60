"""What a deployment file asks of a choice beside time: how much memory its activations may take."""

from __future__ import annotations

from farm.config.deployment import Model
from runtime.selection.memory import MemoryGoal

BYTES_PER_MB = 1_000_000


def memory_goal(settings: Model) -> MemoryGoal:
    """The limit of a model's activations in bytes, and the share of time that may be given for less memory."""
    limit_mb = settings.activation_limit_mb
    return MemoryGoal(None if limit_mb is None else int(limit_mb * BYTES_PER_MB), settings.activation_slowdown)
