"""The operator table tells valid graphs from broken ones, and counts multiply-accumulates."""

import copy
from collections.abc import Callable

import numpy as np
import pytest

from runtime.errors import ModelError
from runtime.graph import ACTIVATIONS, Graph, Node, TensorInfo
from runtime.operators.activations import ACTIVATION_OF, ACTIVATION_PARAMETERS
from runtime.operators.table import OPERATORS, check_graph, node_macs
from runtime.oracle.evaluate import COMPUTE, COMPUTE_GENERIC
from runtime.semantics.generic import GENERIC_OPERATORS, SHAPE_FUNCTIONS
from tests.runtime.graphs import GraphMaker


def small_graph() -> Graph:
    make = GraphMaker()
    conv = make.conv(make.input(1, 4, 6, 6), 8, group=2, strides=(2, 2), activation="clip", alpha=0.0, beta=6.0)
    return make.finish(make.add("Softmax", conv, axis=1))


def test_the_tables_of_operators_and_activations_agree() -> None:
    assert COMPUTE.keys() | COMPUTE_GENERIC.keys() == OPERATORS.keys()
    assert COMPUTE_GENERIC.keys() == SHAPE_FUNCTIONS.keys() == set(GENERIC_OPERATORS)
    assert {"none", *ACTIVATION_OF.values()} == set(ACTIVATIONS) == ACTIVATION_PARAMETERS.keys()
    for op, activation in ACTIVATION_OF.items():
        assert tuple(OPERATORS[op].attributes) == ACTIVATION_PARAMETERS[activation]


def test_a_valid_graph_passes() -> None:
    check_graph(small_graph())


BROKEN: list[tuple[str, Callable[[Graph], object]]] = [
    ("nothing before it computes its input 'conv0'", lambda graph: graph.nodes.reverse()),
    ("output 'y' is computed by no node", lambda graph: graph.outputs.append("y")),
    ("no such operator in a graph", lambda graph: setattr(graph.nodes[0], "op", "Magic")),
    ("tensor 'softmax1' is written twice", lambda graph: graph.nodes.append(copy.deepcopy(graph.nodes[1]))),
    (r"attributes are \[\]; \['axis'\] are expected", lambda graph: graph.nodes[1].attrs.clear()),
    ("attribute axis is 1.0; expected: int", lambda graph: graph.nodes[1].attrs.update(axis=1.0)),
    ("axis 4 is not an axis", lambda graph: graph.nodes[1].attrs.update(axis=4)),
    (r"attribute pads is \(1, 1\); expected: sides", lambda graph: graph.nodes[0].attrs.update(pads=(1, 1))),
    (r"attribute strides is \(0, 1\); expected: pair", lambda graph: graph.nodes[0].attrs.update(strides=(0, 1))),
    (r"\['activation', 'alpha', .* are expected", lambda graph: graph.nodes[0].attrs.pop("beta")),
    ("activation is 'squash'; expected: none, relu", lambda graph: _activation(graph, "squash")),
    ("output 'conv0' has shape", lambda graph: graph.tensors.update(conv0=TensorInfo((1, 8, 6, 6)))),
    ("constant 'w' is not of the shape", lambda graph: graph.constants.update(w=np.zeros(3, np.float32))),
    (r"1 input\(s\); 2 to 4 are supported", lambda graph: graph.nodes[0].inputs.__delitem__(slice(1, 3))),
]


def _activation(graph: Graph, name: str) -> None:
    graph.nodes[0].attrs["activation"] = name
    del graph.nodes[0].attrs["alpha"], graph.nodes[0].attrs["beta"]


@pytest.mark.parametrize(("text", "damage"), BROKEN)
def test_a_broken_graph_is_refused(text: str, damage: Callable[[Graph], object]) -> None:
    graph = small_graph()
    damage(graph)
    with pytest.raises(ModelError, match=text):
        check_graph(graph)


def test_the_error_names_the_node() -> None:
    graph = small_graph()
    graph.nodes[1].attrs["axis"] = 9
    with pytest.raises(ModelError, match=r"^node 'n_softmax1' \(Softmax\): axis 9 is not"):
        check_graph(graph)


def macs(make: GraphMaker, output: str) -> int:
    node = make.graph.producer(output)
    assert isinstance(node, Node)
    return node_macs(make.graph, node)


def test_multiply_accumulates_are_counted() -> None:
    make = GraphMaker()
    x = make.input(2, 4, 6, 6)
    assert macs(make, make.conv(x, 8, k=3)) == 2 * 8 * 6 * 6 * 4 * 3 * 3
    assert macs(make, make.conv(x, 4, k=3, group=4, strides=(2, 2))) == 2 * 4 * 3 * 3 * 3 * 3
    assert macs(make, make.add("FullyConnected", make.input(2, 7), make.weights(5, 7))) == 2 * 5 * 7
    assert macs(make, make.add("MatMul", make.input(3, 2, 7), make.input(7, 5))) == 3 * 2 * 5 * 7
    assert macs(make, make.add("Relu", x)) == 0
