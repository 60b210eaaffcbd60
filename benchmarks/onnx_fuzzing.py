"""Feeds damaged ONNX models to the importer: each must be converted, or refused in one line, soon, in bounded memory.

    python -m benchmarks.onnx_fuzzing [MODEL.onnx ...] [--count N] [--seed S]

Without models, those of ONNX's own node test cases are damaged. A mutant is changed in its bytes, or in its structure
as a wrong exporter might: circles, absurd sizes, lost or doubled tensors, weights outside of its folder, and so on.
What converts is lowered too. A hang, a traceback, or a line that is none is a fault, and told with its number.
"""

import argparse
import collections
import contextlib
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, TensorProto, helper

from benchmarks.import_fuzzing import mutated
from benchmarks.onnx_cases import cases
from runtime.convert import convert
from runtime.errors import FarmError
from runtime.importers.onnx_file import load_onnx
from runtime.lowering.lower import lower
from runtime.target import Target

SECONDS = 30
MEMORY_BYTES = 8 << 30
LONGEST_LINE = 20_000
SHOWN = 1500
WHOLES = (0, 1, -1, 2, 7, -(2**31), 2**31, 2**40, -(2**63), 2**63 - 1)
REALS = (0.0, -1.0, 1e-30, 1e38, float("inf"), float("nan"))
OUTSIDE = ("../../../etc/passwd", "/etc/passwd", "no_such_file", "", "a" * 5000, ".", "mutant.onnx")
CPU = Target("host", "host", memory="cpu")
FAULTS = ("hung", "traceback", "no line")
Damage = Callable[[onnx.ModelProto, random.Random], None]


def _tensor_names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    named = [value.name for value in (*graph.input, *graph.initializer, *graph.output)]
    return [*named, *(name for node in graph.node for name in (*node.input, *node.output))] or [""]


def _another_name(model: onnx.ModelProto, rng: random.Random) -> None:
    """An input or output of a node becomes any other tensor: circles, doubles, what is computed later or never."""
    node = rng.choice(model.graph.node)
    names = rng.choice([node.input, node.output])
    if names:
        names[rng.randrange(len(names))] = rng.choice([*_tensor_names(model), "", "nothing", "n" * 100_000])


def _another_size(model: onnx.ModelProto, rng: random.Random) -> None:
    value = rng.choice([*model.graph.input, *model.graph.output])
    shape = value.type.tensor_type.shape
    dim = rng.choice(shape.dim) if shape.dim and rng.random() < 0.8 else shape.dim.add()
    if rng.random() < 0.8:
        dim.dim_value = rng.choice(WHOLES)
    else:
        dim.dim_param = rng.choice(["N", "", "n" * 10_000])


def _another_constant(model: onnx.ModelProto, rng: random.Random) -> None:
    """Sizes, element type or content of a constant; or where its content lies."""
    tensor = rng.choice(model.graph.initializer) if model.graph.initializer else model.graph.initializer.add(name="c")
    kind = rng.randrange(5)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(WHOLES)
    elif kind == 1:
        tensor.dims.append(rng.choice(WHOLES))
    elif kind == 2:
        tensor.data_type = rng.choice([*TensorProto.DataType.values(), 99])
    elif kind == 3:
        tensor.raw_data = rng.choice([b"", tensor.raw_data[:-1], mutated(tensor.raw_data or b"12345678", rng)])
    else:
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in {"location": rng.choice(OUTSIDE), "offset": str(rng.choice(WHOLES)), "length": "8"}.items():
            tensor.external_data.add(key=key, value=text)


def _another_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    attributes = rng.choice(model.graph.node).attribute
    if not attributes or rng.random() < 0.1:
        attributes.append(helper.make_attribute(rng.choice(["axis", "perm", "odd", "to"]), rng.choice(WHOLES)))
        return
    attribute = rng.choice(attributes)
    if rng.random() < 0.2:
        attributes.remove(attribute)
    elif rng.random() < 0.1:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    elif attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(WHOLES)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(REALS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice([b"", b"\xff\xfe", b"max", b"s" * 100_000])
    else:
        attribute.i = rng.choice(WHOLES)


def _another_node(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another operator, domain or order; a node that is lost, or there twice."""
    nodes, kind = model.graph.node, rng.randrange(5)
    node = rng.choice(nodes)
    if kind == 0:
        node.op_type = rng.choice([schema.name for schema in onnx.defs.get_all_schemas()])
    elif kind == 1:
        node.domain = rng.choice(["farm", "ai.onnx.ml", "com.microsoft", "\n", "d" * 10_000])
    elif kind == 2:
        nodes.remove(node)
    elif kind == 3:
        nodes.add().CopyFrom(node)
    else:
        shuffled = list(nodes)
        rng.shuffle(shuffled)
        del nodes[:]
        nodes.extend(shuffled)


def _another_opset(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.opset_import and rng.random() < 0.8:
        rng.choice(model.opset_import).version = rng.choice([*WHOLES, *range(1, 30)])
    else:
        model.opset_import.add(domain=rng.choice(["", "farm", "x"]), version=rng.choice(WHOLES))


def _deeper(model: onnx.ModelProto, rng: random.Random) -> None:
    """The whole graph within branches of branches."""
    outputs = [value.name for value in model.graph.output]
    for depth in range(rng.choice([1, 5, 40, 90])):
        inner = onnx.GraphProto()
        inner.CopyFrom(model.graph)
        del inner.input[:]
        renamed = [f"{name}/{depth}" for name in outputs]
        node = helper.make_node("If", ["yes"], renamed, f"if{depth}", then_branch=inner, else_branch=onnx.GraphProto())
        del model.graph.node[:]
        model.graph.node.append(node)
        for value, name in zip(model.graph.output, renamed, strict=True):
            value.name = name
        outputs = renamed
    model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))


def _lost(model: onnx.ModelProto, rng: random.Random) -> None:
    """An input, output or constant that is missing, or there twice."""
    values = rng.choice([model.graph.input, model.graph.output, model.graph.initializer])
    if values and rng.random() < 0.6:
        del values[rng.randrange(len(values))]
    elif values:
        values.add().CopyFrom(rng.choice(values))


DAMAGES: Sequence[Damage] = (
    *(_another_name, _another_name, _another_size, _another_constant, _another_constant, _another_attribute),
    *(_another_attribute, _another_node, _another_opset, _deeper, _lost),
)


def mutant(content: bytes, rng: random.Random) -> bytes:
    """A damaged model: in a quarter of all cases its bytes."""
    if rng.random() < 0.25:
        return mutated(content, rng)
    model = onnx.ModelProto.FromString(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        with contextlib.suppress(ValueError, IndexError, DecodeError):  # what cannot be written so is left as it is
            rng.choice(DAMAGES)(model, rng)
    damaged: bytes = model.SerializeToString()
    return damaged


class Late(BaseException):
    """A mutant took too long; no handler of the importer may take it for its own."""


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def expired(number: int, frame: FrameType | None) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(path: Path) -> tuple[str, str]:
    """How the import of a model ends, and what is said."""
    try:
        with _limited(SECONDS):
            graph, _ = convert(load_onnx(path))
            lower(graph, CPU)
    except FarmError as error:
        said = str(error)
        return ("refused" if said.isprintable() and 0 < len(said) < LONGEST_LINE else "no line"), said
    except Late:
        return "hung", f"after {SECONDS} s"
    except Exception:  # whatever it is, the user would see a traceback
        return "traceback", traceback.format_exc()
    return "converted", ""


def fuzz(models: Sequence[bytes], count: int, seed: int) -> collections.Counter[str]:
    """Imports `count` mutants; prints the fault of each that is one."""
    found = collections.Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "mutant.onnx"
        for number in range(count):
            rng = random.Random(f"{seed} {number}")
            path.write_bytes(mutant(rng.choice(models), rng))
            kind, text = outcome(path)
            found[kind] += 1
            if kind in FAULTS:
                print(f"seed {seed}, mutant {number}: {kind}: {text[-SHOWN:]}", flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_fuzzing")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    models = [path.read_bytes() for path in given.models] or [case.model.SerializeToString() for case in cases()]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    began = time.monotonic()
    found = fuzz(models, given.count, given.seed)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    print(f"{given.count} mutants in {time.monotonic() - began:.0f} s: {counts}")
    return int(any(found[kind] for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
