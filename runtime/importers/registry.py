"""What a family of operators offers to the importer."""

from __future__ import annotations

from collections.abc import Callable

from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode

Handler = Callable[[OnnxNode, GraphBuilder], None]
