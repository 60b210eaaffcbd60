"""A program: makes of an ONNX file what ExecuTorch runs, with XNNPACK where that takes a node.

Arguments: the ONNX file, the .pte file to write, and a JSON file for how many nodes XNNPACK took, and how many it left.
It imports nothing of farm.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any


def main(onnx_file: str, pte_file: str, nodes_file: str) -> None:
    """See above."""
    import onnx
    import torch

    stand_in_for_torchvision()
    import onnx2torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.devtools.backend_debug import get_delegation_info
    from executorch.exir import to_edge_transform_and_lower

    model = onnx.load(onnx_file)
    example = tuple(map(zeros, model.graph.input))
    exported = torch.export.export(onnx2torch.convert(model).eval(), example)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    info = get_delegation_info(lowered.exported_program().graph_module)
    nodes = {"xnnpack": info.num_delegated_nodes, "cpu": info.num_non_delegated_nodes}
    Path(nodes_file).write_text(json.dumps(nodes))
    Path(pte_file).write_bytes(lowered.to_executorch().buffer)


def zeros(value: Any) -> Any:
    """A tensor of an input's shape and element type."""
    import onnx
    import torch

    kind = value.type.tensor_type
    element = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return torch.zeros([size.dim_value for size in kind.shape.dim], dtype=getattr(torch, element.name))


def stand_in_for_torchvision() -> None:
    """Lets onnx2torch be imported without torchvision, which it needs for RoiAlign and NonMaxSuppression alone."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):  # it is not there, or belongs to another PyTorch
        module, ops = types.ModuleType("torchvision"), types.ModuleType("torchvision.ops")
        ops.roi_align = ops.nms = ops.box_convert = None  # type: ignore[attr-defined]
        module.ops = ops  # type: ignore[attr-defined]
        sys.modules.update({"torchvision": module, "torchvision.ops": ops})


if __name__ == "__main__":
    main(*sys.argv[1:])
