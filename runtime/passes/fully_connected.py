"""Reshape to fully connected: a layer on a flattened image becomes a convolution with a filter of the image's size.

The image then needs no transposition to its flat order, whatever its storage.
"""

import dataclasses

from runtime.formats.permutation import Permutation, inverse
from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor, pass_over

_WHOLE_IMAGE = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
_SAME: Permutation = (0, 1, 2, 3)
_FEW = 4  # images; of more, a product of matrices reads the weights once for many


@pass_over("FullyConnected")
def convert_fully_connected(editor: GraphEditor, node: Node) -> str:
    """Turns FullyConnected(Reshape([n, c, h, w])) into Conv with a filter [o, c, h, w] and a Reshape to [n, o].

    Where the image was transposed before, as in networks that are NHWC, the filter is transposed instead.
    """
    graph, flatten = editor.graph, editor.producer(node.inputs[0], "Reshape")
    known = graph.tensors[node.output].quantization
    if known is not None and known.fixed_point:
        return ""  # it is rounded otherwise than a convolution
    fits = graph.is_constant(node.inputs[1]) and len(node.inputs) < 4  # what is joined has no axes of an image
    if flatten is None or not _flattens_images(graph, flatten) or not fits:
        return ""
    _convert(editor, node, flatten.inputs[0])
    return node.name


def _flattens_images(graph: Graph, flatten: Node) -> bool:
    image = graph.shape(flatten.inputs[0])
    return len(image) == 4 and len(flatten.attrs["shape"]) == 2 and flatten.attrs["shape"][0] == image[0] <= _FEW


def _convert(editor: GraphEditor, node: Node, image: str) -> None:
    weights = editor.graph.constants[node.inputs[1]]
    source, perm = _before_transpose(editor, image)
    filters = weights.reshape(weights.shape[0], *editor.graph.shape(image)[1:]).transpose(inverse(perm))
    name = editor.add_constant(f"{node.inputs[1]}/filter", filters)
    known = editor.graph.tensors[node.inputs[1]].quantization
    if known is not None and known.axis in (None, 0):
        editor.graph.tensors[name] = dataclasses.replace(editor.graph.tensors[name], quantization=known)
    inputs = [source, name, *node.inputs[2:]]
    out = editor.insert_before(node, "Conv", node.name, inputs, {**_WHOLE_IMAGE, **node.attrs})
    node.name = f"{node.name}/reshape"
    editor.rewrite(node, "Reshape", [out], {"shape": editor.graph.shape(node.output)})


def _before_transpose(editor: GraphEditor, image: str) -> tuple[str, Permutation]:
    """An image before it is transposed, and how; the image itself where nothing transposes it, or its batch too."""
    transpose = editor.producer(image, "Transpose")
    if transpose is None or transpose.attrs["perm"][0] != 0:
        return image, _SAME
    return transpose.inputs[0], transpose.attrs["perm"]
