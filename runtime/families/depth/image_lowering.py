"""Lowers DepthToSpace and SpaceToDepth on images: one launch."""

from __future__ import annotations

from runtime.graph import Node
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit, extents


def lower_depth_to_space(builder: Builder, node: Node) -> str:
    """Lowers DepthToSpace."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["blocksize"]}
    return emit(builder, node, "depth_to_space", "DepthToSpace", dims, defines=_defines(node))


def lower_space_to_depth(builder: Builder, node: Node) -> str:
    """Lowers SpaceToDepth."""
    dims = extents(builder.graph.shape(node.output)) | {"size": node.attrs["blocksize"]}
    dims["in_c"] = builder.graph.shape(node.inputs[0])[1]
    return emit(builder, node, "space_to_depth", "SpaceToDepth", dims, defines=_defines(node))


def _defines(node: Node) -> dict[str, int]:
    return {"CRD": int(node.attrs["mode"] == "CRD")}


IMAGE_LOWERINGS = {"DepthToSpace": lower_depth_to_space, "SpaceToDepth": lower_space_to_depth}
