"""Draws small graphs in which transpositions can move: all transposable operators, residuals, narrow operands."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from runtime.graph import Graph
from runtime.semantics.generic_forms import element_form, gather_form, reduction_form, view_form
from tests.runtime.graphs import GraphMaker

Step = Callable[[GraphMaker, str, st.DrawFn], str]
PERMS: Mapping[int, list[tuple[int, ...]]] = {
    3: [(0, 2, 1), (1, 0, 2), (1, 2, 0)],
    4: [*[(0, 2, 3, 1), (0, 3, 1, 2)] * 2, (0, 1, 3, 2)],
}
LARGEST = 600


def _shape(make: GraphMaker, x: str) -> tuple[int, ...]:
    return make.graph.shape(x)


def _axis(make: GraphMaker, x: str, draw: st.DrawFn) -> int:
    return draw(st.integers(0, len(_shape(make, x)) - 1))


def _transpose(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    perms = PERMS.get(len(_shape(make, x)))
    return make.add("Transpose", x, perm=draw(st.sampled_from(perms))) if perms else make.add("Relu", x)


def _unary(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    op = draw(st.sampled_from(["Relu", "LeakyRelu", "Tanh"]))
    return make.add(op, x, **({"alpha": 0.1} if op == "LeakyRelu" else {}))


def _with_constant(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    shape = _shape(make, x)[draw(st.integers(0, len(_shape(make, x)))) :]
    ones = tuple(size if draw(st.booleans()) else 1 for size in shape)
    constant = make.weights(*ones)
    return make.add(draw(st.sampled_from(["Add", "Mul", "Sub"])), *draw(st.permutations([x, constant])))


def _with_tensor(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """A residual, or an operand that broadcasts, of as many or fewer axes."""
    fitting = [name for name in make.graph.tensors if _broadcasts(_shape(make, name), _shape(make, x))]
    other = draw(st.sampled_from([name for name in fitting if make.graph.tensors[name].dtype == np.float32]))
    return make.add(draw(st.sampled_from(["Add", "Mul"])), *draw(st.permutations([x, other])))


def _broadcasts(small: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(small, wide) == wide
    except ValueError:
        return False


def _narrow(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """A sum with a part of a tensor that has fewer axes, computed at run time."""
    shape = _shape(make, x)
    kept = shape[draw(st.integers(1, len(shape) - 1)) :]
    count = int(np.prod(kept))
    flat = make.add("Reshape", x, shape=(int(np.prod(shape)),))
    part = make.add("Slice", flat, starts=(0,), ends=(count,), axes=(0,), steps=(1,))
    return make.add("Add", x, make.add("Reshape", part, shape=kept))


def _concat(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    same = [name for name in make.graph.tensors if _shape(make, name) == _shape(make, x)]
    floats = [name for name in same if make.graph.tensors[name].dtype == np.float32]
    other = draw(st.sampled_from([*floats, make.weights(*_shape(make, x))]))
    return make.add(draw(st.sampled_from(["Concat", "Join"])), x, other, axis=_axis(make, x, draw))


def _slice(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    axes = sorted(draw(st.sets(st.integers(0, len(_shape(make, x)) - 1), min_size=1)))
    ends = [draw(st.integers(1, _shape(make, x)[axis])) for axis in axes]
    if draw(st.booleans()):
        return make.add("Slice", x, starts=(0,) * len(axes), ends=tuple(ends), axes=tuple(axes), steps=(1,) * len(axes))
    starts = tuple(end - 1 for end in ends)
    return make.add("Slice", x, starts=starts, ends=(-1,) * len(axes), axes=tuple(axes), steps=(-1,) * len(axes))


def _pad(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    rank = len(_shape(make, x))
    pads = tuple(draw(st.integers(0, 1)) for _ in range(2 * rank))
    return make.add("Pad", x, pads=pads, value=0.5, mode=draw(st.sampled_from(["constant", "edge"])))


def _embedding(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    steps = tuple(draw(st.integers(1, 2)) for _ in _shape(make, x))
    starts = tuple(draw(st.integers(0, 1)) for _ in steps)
    places = zip(_shape(make, x), starts, steps, strict=True)
    wide = tuple(start + (size - 1) * step + 1 for size, start, step in places)
    return make.add("Embedding", x, shape=wide, starts=starts, steps=steps, value=1.0)


def _view(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    """A repetition of axes of one element, or every other element."""
    shape = _shape(make, x)
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    if draw(st.booleans()):
        wide = tuple(draw(st.integers(1, 3)) if size == 1 else size for size in shape)
        steps = [0 if size == 1 else step for size, step in zip(shape, strides, strict=True)]
        return make.add("Strided", x, **view_form(wide, steps))
    part = tuple((size + 1) // 2 for size in shape)
    return make.add("Strided", x, **view_form(part, [2 * step for step in strides]))


def _reduce(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    axes = sorted(draw(st.sets(st.integers(0, len(_shape(make, x)) - 1), min_size=1)))
    op = draw(st.sampled_from(["ReduceMean", "ReduceMax"]))
    return make.add(op, x, axes=tuple(axes), keepdims=draw(st.booleans()))


def _arg_max(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    form = reduction_form(_shape(make, x), (_axis(make, x, draw),), draw(st.booleans()), "arg_max", "int64")
    return make.add("StridedReduction", x, **form)


def _along_axis(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    axis = _axis(make, x, draw)
    op = draw(st.sampled_from(["Softmax", "Cumulation", "Sorting"]))
    extra: dict[str, dict[str, Any]] = {
        "Softmax": {},
        "Cumulation": {"function": "sum", "exclusive": draw(st.booleans()), "reverse": draw(st.booleans())},
        "Sorting": {"count": draw(st.integers(1, _shape(make, x)[axis])), "largest": True, "positions": False},
    }
    return make.add(op, x, axis=axis, **extra[op])


def _gather(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    axis = _axis(make, x, draw)
    chosen = draw(st.lists(st.integers(0, _shape(make, x)[axis] - 1), min_size=1, max_size=3))
    indices = make.graph.add_constant("indices", np.array(chosen, np.int64))
    return make.add("IndexedRead", x, indices, **gather_form(_shape(make, x), (len(chosen),), axis))


def _where(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    less = make.add("Elementwise", x, make.weights(_shape(make, x)[-1]), **element_form("less", "bool"))
    return make.add("Elementwise", less, x, make.weights(), **element_form("where", "float32"))


def _conv(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    return make.conv(x, draw(st.integers(1, 3)), k=1) if len(_shape(make, x)) == 4 else make.add("Neg", x)


def _reshape(make: GraphMaker, x: str, draw: st.DrawFn) -> str:
    shape = _shape(make, x)
    return make.add("Reshape", x, shape=(*shape[:-2], shape[-1] * shape[-2], 1) if len(shape) > 2 else (*shape, 1))


STEPS: tuple[Step, ...] = (
    *(_transpose,) * 8,
    *(_unary, _with_constant, _with_tensor, _with_tensor, _with_tensor, _narrow, _concat, _concat, _slice, _pad),
    *(_embedding, _view, _reduce, _arg_max, _along_axis, _gather, _where, _conv, _conv, _reshape),
)


@st.composite
def format_graphs(draw: st.DrawFn, most_steps: int = 14) -> tuple[Graph, GraphMaker]:
    """A graph of up to `most_steps` steps, each on any tensor so far; the last tensor and some others are outputs."""
    make = GraphMaker(seed=draw(st.integers(0, 99)))
    tensors = [make.input(*draw(st.sampled_from([(1, 2, 3, 4), (2, 3, 2), (1, 2, 2, 2)])))]
    for _ in range(draw(st.integers(2, most_steps))):
        x = tensors[-1] if draw(st.booleans()) else draw(st.sampled_from(tensors))
        y = draw(st.sampled_from(STEPS))(make, x, draw)
        info = make.graph.tensors[y]
        if info.size <= LARGEST and info.dtype == np.float32 and len(info.shape) > 1:
            tensors.append(y)
    computed = [node.output for node in make.graph.nodes]
    others = draw(st.lists(st.sampled_from(computed), max_size=2, unique=True))
    return make.finish(*dict.fromkeys([computed[-1], *others])), make
