"""Every operator that the importer has a function for, by name; ONNX's own definitions supply further ones."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.importers.registry import Handler
from runtime.registry import collect

HANDLERS: Mapping[str, Handler] = collect("HANDLERS")
FARM_HANDLERS: Mapping[str, Handler] = collect("FARM_HANDLERS")  # of the domain `farm`
