"""Every operator that the importer has a function for, by name; ONNX's own definitions supply further ones.

`ONNX_FUNCTIONS`: the text of a function of ONNX for operators of other domains, by domain and name, of a node.
`EXPANSIONS`: what operators of the graph that no device has are brought down to (passes/expansion.py).
"""

from collections.abc import Mapping
from typing import Any

from runtime.importers.function_text import ShapedText
from runtime.importers.registry import Handler
from runtime.registry import collect

HANDLERS: Mapping[str, Handler] = collect("HANDLERS")
ONNX_FUNCTIONS: Mapping[Any, ShapedText] = collect("ONNX_FUNCTIONS")  # by (domain, operator)
EXPANSIONS: Mapping[str, Handler] = collect("EXPANSIONS")
FARM_HANDLERS: Mapping[str, Handler] = collect("FARM_HANDLERS")  # of the domain `farm`
