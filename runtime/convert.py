"""Converts an ONNX model to a graph and reports what each pass did."""

from collections.abc import Mapping, Sequence

import onnx

from runtime.graph import Graph
from runtime.importers.farm_domain import CustomNames
from runtime.importers.onnx_importer import OnnxImport
from runtime.operators.table import carry_quantization, check_graph
from runtime.passes.expansion import expand_operators
from runtime.passes.origins import carried_origins, origin_lines, trace_origins
from runtime.passes.pipeline import PassReport, run_passes
from runtime.types import OriginFormat


def convert(
    model: onnx.ModelProto,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    outputs: Sequence[str] | None = None,
    formats: Mapping[str, OriginFormat] | None = None,
    custom: CustomNames | None = None,
) -> tuple[Graph, list[PassReport]]:
    """Imports a model and runs all passes; the first report says what became constant at import.

    `input_shapes`, `outputs`, `custom` and errors: see `runtime.importers.onnx_importer.import_onnx`. With `formats`,
    those of inputs and outputs that are known, the second report has the origin format of every tensor of the model.
    """
    importer = OnnxImport(model, input_shapes or {}, outputs, custom)
    graph = importer.run()
    builder = importer.builder
    reports = [PassReport("constants at import", builder.folded)]
    if graph.padded:
        reports.append(PassReport("results with -1 behind what a run finds", graph.padded))
    reports += [PassReport(note, nodes) for note, nodes in importer.notes.items()]
    described = [f"{name}: {info.quantization}" for name, info in graph.tensors.items() if info.quantization]
    if described:
        reports.append(PassReport("quantised tensors", described))
    reports += [PassReport(title, changes) for title, changes in expand_operators(graph).items() if changes]
    origins = trace_origins(graph, formats or {})
    if formats is not None:
        reports.append(PassReport("origin formats", list(origin_lines(origins))))
    reports += run_passes(graph)
    carry_quantization(graph)
    check_graph(graph)
    graph.origins = carried_origins(graph, origins)
    return graph, reports
