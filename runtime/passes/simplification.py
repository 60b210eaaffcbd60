"""Constant folding, identity removal, merging of Reshapes and of equal nodes, and removal of dead code."""

from runtime.graph import Graph, Node
from runtime.oracle.evaluate import compute
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.fake_quantization import FAKE_QUANTIZATIONS


@pass_over()
def fold_constants(editor: GraphEditor, node: Node) -> str:
    """Evaluates nodes whose inputs are all constant."""
    constants = editor.graph.constants
    if not all(name in constants for name in node.inputs if name):
        return ""
    constants[node.output] = compute(node.op, [constants.get(name) for name in node.inputs], node.attrs)
    editor.drop(node)
    return node.name


@pass_over()
def remove_identities(editor: GraphEditor, node: Node) -> str:
    """Removes nodes that write what they read, unless an output of the graph would lose its name."""
    kept, inputs = _kept(editor.graph, node), node.inputs
    if not kept or editor.graph.shape(kept) != editor.graph.shape(node.output):
        return ""
    editor.set_inputs(node, [kept])
    if editor.bypass(node):
        return node.name
    editor.set_inputs(node, inputs)
    return ""


def _kept(graph: Graph, node: Node) -> str:
    """The input whose elements a node writes in their order; empty where it does more."""
    first = node.inputs[0] if node.inputs else ""
    if node.op == "Add" and "activation" not in node.attrs:
        zeros = [(value := graph.constants.get(name)) is not None and not value.any() for name in node.inputs]
        return node.inputs[zeros.index(True) - 1] if any(zeros) else ""
    if node.op == "Elementwise" and node.attrs["function"] == "where":
        chosen = graph.constants.get(first)
        is_one = chosen is not None and (chosen.all() or not chosen.any())
        return node.inputs[1 if chosen.all() else 2] if chosen is not None and is_one else ""
    return first if _is_identity(graph, node) else ""


def _is_identity(graph: Graph, node: Node) -> bool:
    if node.op == "Pad":
        return not any(node.attrs["pads"])
    if node.op == "Reshape":
        return bool(node.attrs["shape"] == graph.shape(node.inputs[0]))
    if node.op == "Transpose":
        return bool(node.attrs["perm"] == tuple(sorted(node.attrs["perm"])))
    return node.op == "Identity" or (node.op == "Concat" and len(node.inputs) == 1)


@pass_over("Reshape")
def merge_reshapes(editor: GraphEditor, node: Node) -> str:
    """Makes a Reshape read the input of the Reshape before it."""
    first = editor.producer(node.inputs[0], "Reshape")
    if first is None:
        return ""
    editor.set_inputs(node, first.inputs)
    return f"{first.name} into {node.name}"


def merge_equals(graph: Graph) -> list[str]:
    """Makes readers of a Reshape or a rounding read an earlier one of the same tensor: exporters write one for each."""
    editor = GraphEditor(graph)
    first: dict[object, Node] = {}
    changes = []
    for node in editor.nodes("Reshape", *FAKE_QUANTIZATIONS):
        same = first.setdefault((node.op, tuple(node.inputs), tuple(sorted(node.attrs.items()))), node)
        if same is node or node.output in graph.outputs:
            continue
        for reader in list(editor.readers(node.output)):
            editor.set_inputs(reader, [same.output if name == node.output else name for name in reader.inputs])
        editor.drop(node)
        changes.append(f"{node.name} as {same.name}")
    editor.finish()
    return changes


def remove_dead_code(graph: Graph) -> list[str]:
    """Removes nodes that nothing reads, last first; returns their names."""
    editor = GraphEditor(graph)
    changes = []
    for node in reversed(list(editor.nodes())):
        if not editor.readers(node.output) and node.output not in graph.outputs:
            editor.drop(node)
            changes.append(node.name)
    editor.finish()
    return changes
