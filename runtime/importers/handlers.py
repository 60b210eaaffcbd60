"""Every operator that the importer has a function for, by name; ONNX's own definitions supply further ones.

`EXPANSIONS`: what operators of the graph that no device has are brought down to (passes/expansion.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.importers.registry import Handler
from runtime.registry import collect

HANDLERS: Mapping[str, Handler] = collect("HANDLERS")
EXPANSIONS: Mapping[str, Handler] = collect("EXPANSIONS")
FARM_HANDLERS: Mapping[str, Handler] = collect("FARM_HANDLERS")  # of the domain `farm`
