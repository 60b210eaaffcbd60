"""Converts an ONNX model to a graph and reports what each pass did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from runtime.graph import Graph
from runtime.importers.onnx_importer import OnnxImport
from runtime.operators import check_graph
from runtime.passes.pipeline import PassReport, run_passes


def convert(
    model: onnx.ModelProto,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    outputs: Sequence[str] | None = None,
) -> tuple[Graph, list[PassReport]]:
    """Imports a model and runs all passes; the first report says what became constant at import.

    `input_shapes`, `outputs` and errors: see `runtime.importers.onnx_importer.import_onnx`.
    """
    importer = OnnxImport(model, input_shapes or {}, outputs)
    graph = importer.run()
    builder = importer.builder
    reports = [PassReport("constants at import", builder.folded), *run_passes(graph)]
    if builder.padded:
        reports.insert(1, PassReport("results with -1 behind what a run finds", builder.padded))
    check_graph(graph)
    return graph, reports
