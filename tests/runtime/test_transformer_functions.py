"""ONNX Runtime's operators of transformers, quantised ones among them, are what it computes itself."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from runtime.convert import convert
from runtime.errors import UnsupportedError
from runtime.families.attention import decoder_onnx_functions
from runtime.families.attention.onnx_functions import ONNX_FUNCTIONS
from runtime.graph import Array
from runtime.importers.function_text import DOMAIN
from runtime.importers.onnx_importer import import_onnx
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import run_onnxruntime

RANDOM = np.random.default_rng(11)
BATCH, LENGTH, WIDTH, WORDS = 2, 5, 24, 40


def real(*shape: int) -> Array:
    return RANDOM.standard_normal(shape, np.float32)


def whole(*shape: int, kind: Any = np.uint8, most: int = 255) -> Array:
    """Few bits where products are summed, so that pairs of them stay within 16 bits."""
    info = np.iinfo(kind)
    return RANDOM.integers(max(info.min, -most), min(info.max, most), shape).astype(kind)


def scales(names: str) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for index, name in enumerate(names.split()):
        found |= {f"{name}_s": np.float32(0.01 + 0.003 * index), f"{name}_z": np.uint8(110 + 5 * index)}
    return found


TABLES = {"word": (WORDS, WIDTH), "place": (9, WIDTH), "kind": (2, WIDTH), "gamma": (WIDTH,), "beta": (WIDTH,)}
NAMES = "word place kind gamma beta"
IDS = {"ids": whole(BATCH, LENGTH, kind=np.int32, most=WORDS) % WORDS}
KINDS = {"kinds": np.array([[0, 0, 1, 1, 1], [0, 1, 0, 1, 0]], np.int32)}
MASK = {"mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)}
LENGTHS = {"mask": np.array([3, 5], np.int32)}
SQUARE = {"mask": np.tril(np.ones((BATCH, LENGTH, LENGTH), np.int32))}
ROWS = {"x": real(BATCH, LENGTH, WIDTH), "skip": real(BATCH, LENGTH, WIDTH)}
NORM = {"gamma": real(WIDTH), "beta": real(WIDTH), "bias": real(WIDTH)}
ATTENTION = {"w": real(WIDTH, 3 * WIDTH) / 5, "bias": real(3 * WIDTH)}
QUANTIZED = {
    "x": whole(BATCH, LENGTH, WIDTH, most=120),
    "w": whole(WIDTH, 3 * WIDTH, kind=np.int8, most=60),
    **{"bias": real(3 * WIDTH), "xs": np.float32(0.02), "ws": np.float32(0.01), "xz": np.uint8(60), "wz": np.int8(0)},
}
COLUMNS = {"ws": np.linspace(0.005, 0.02, 3 * WIDTH, dtype=np.float32), "wz": np.zeros(3 * WIDTH, np.int8)}
HEADS = {"num_heads": 4}
DEPTH, BEFORE = WIDTH // 4, 3
QKV = {**{name: real(BATCH, LENGTH, WIDTH) for name in "qkv"}, "bias": real(3 * WIDTH)}
PACKED = {"q": real(BATCH, LENGTH, 4, 3, DEPTH)}
BY_HEADS = {"q": real(BATCH, LENGTH, WIDTH), **{name: real(BATCH, 4, LENGTH + 2, DEPTH) for name in "kv"}}
PAST = {name: real(BATCH, 4, BEFORE, DEPTH) for name in ("past_k", "past_v")}
SCORES = {"more": real(1, 4, LENGTH, LENGTH + BEFORE)}
ANGLES = {name: real(16, DEPTH // 2) for name in ("cos", "sin")}
DEEP = 16  # ONNX Runtime turns no heads of fewer elements here
DEEP_ANGLES = {name: real(16, DEEP // 2) for name in ("cos", "sin")}
GROUPED = {"num_heads": 4, "kv_num_heads": 2}
FEW = {"q": real(BATCH, LENGTH, 4 * DEEP), **{name: real(BATCH, LENGTH, 2 * DEEP) for name in "kv"}}
PACKED_FEW = {"q": real(BATCH, LENGTH, 8 * DEEP)}
FIRST = {"counted": np.array([LENGTH - 1] * BATCH, np.int32), "total": np.int32(LENGTH)}
CACHE = {name: real(BATCH, 2, BEFORE, DEEP) for name in ("past_k", "past_v")}
LATER = {"counted": np.array([LENGTH + BEFORE - 1], np.int32), "total": np.int32(LENGTH + BEFORE)}
STEP = {"q": real(BATCH, 1, 8 * DEEP), **CACHE, "total": np.int32(1 + BEFORE)}
GROUPED_READS = "q k v past_k past_v counted total cos sin"
INPUTS = ("x", "skip", "ids", "kinds", "mask", "q", "k", "v", "past_k", "past_v", "more", "counted")
Q_READS = "x w bias xs ws"


@dataclasses.dataclass(frozen=True)
class Case:
    op: str
    reads: str
    values: Mapping[str, Any]
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    writes: str = "y"
    domain: str = DOMAIN

    def __str__(self) -> str:
        return f"{self.op} {self.reads} {dict(self.attributes)} {self.values.get('mask', np.zeros(0)).ndim}"

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        names = [name if name in self.values else "" for name in self.reads.split()]
        values = {name: np.asarray(value) for name, value in self.values.items() if name in names}
        written = ["" if name == "-" else name for name in self.writes.split()]
        inputs = {name: value for name, value in values.items() if name in INPUTS}
        graph = helper.make_graph(
            [helper.make_node(self.op, names, written, domain=self.domain, **self.attributes)],
            "one",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                for name, value in inputs.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in written if name],
            [numpy_helper.from_array(value, name) for name, value in values.items() if name not in inputs],
        )
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8), inputs


PLACES = np.array([[3, 4, 5, 6, 7], [0, 1, 2, 9, 15]])
PRESENT = "y present_k present_v"
TURNED = {"do_rotary": 1}
FLOAT_TABLES = {name: real(*shape) for name, shape in TABLES.items()}
BYTE_TABLES = {name: whole(*shape) for name, shape in TABLES.items()}
EMBED = f"ids kinds {NAMES}"
Q_SCALES = " ".join(f"{name}_{kind}" for kind in "sz" for name in NAMES.split())
CASES = [
    Case("Attention", "x w bias", {**ROWS, **ATTENTION}, HEADS),
    Case("Attention", "x w bias mask", {**ROWS, **ATTENTION, **MASK}, {**HEADS, "scale": 0.3}),
    Case("Attention", "x w bias mask", {**ROWS, **ATTENTION, **SQUARE}, HEADS),
    Case("Attention", "x w bias", {**ROWS, **ATTENTION}, {**HEADS, "unidirectional": 1}),
    Case("QAttention", Q_READS, {**QUANTIZED, "x": whole(BATCH, LENGTH, WIDTH, most=120)}, HEADS),
    Case("QAttention", f"{Q_READS} mask xz wz", {**QUANTIZED, **MASK}, HEADS),
    Case("QAttention", f"{Q_READS} mask xz wz", {**QUANTIZED, **LENGTHS, **COLUMNS}, HEADS),
    Case("QAttention", f"{Q_READS} - xz wz", QUANTIZED, {**HEADS, "unidirectional": 1}),
    Case("EmbedLayerNormalization", f"{EMBED} mask", {**IDS, **KINDS, **MASK, **FLOAT_TABLES}, {}, "y counts"),
    Case("EmbedLayerNormalization", "ids - word place - gamma beta", {**IDS, **FLOAT_TABLES}, {}, "y counts"),
    Case(
        "QEmbedLayerNormalization",
        f"{EMBED} mask {Q_SCALES}",
        {**IDS, **KINDS, **MASK, **BYTE_TABLES, **scales(NAMES)},
        {"epsilon": 1e-5},
        "y counts",
    ),
    Case("SkipLayerNormalization", "x skip gamma beta bias", {**ROWS, **NORM}, {"epsilon": 1e-5}),
    Case("SkipLayerNormalization", "x skip gamma", {**ROWS, **NORM}),
    Case("Gelu", "x", ROWS),
    Case("BiasGelu", "x bias", {**ROWS, **NORM}),
    Case("FastGelu", "x bias", {**ROWS, **NORM}),
    Case("FastGelu", "x", ROWS),
    Case("QuickGelu", "x", ROWS, {"alpha": 1.5}),
    Case("SimplifiedLayerNormalization", "x gamma", {**ROWS, **NORM}, {"axis": -1}, domain=""),
    Case("SkipSimplifiedLayerNormalization", "x skip gamma", {**ROWS, **NORM}, {"epsilon": 1e-6}),
    Case("SkipSimplifiedLayerNormalization", "x skip gamma bias", {**ROWS, **NORM}, {}, "y - - sum"),
    Case("RotaryEmbedding", "x places cos sin", {**ROWS, **ANGLES, "places": np.array([3])}),
    Case("RotaryEmbedding", "x places cos sin", {**ROWS, **ANGLES, "places": PLACES}, {"interleaved": 1}),
    Case("RotaryEmbedding", "q places cos sin", {"q": real(BATCH, 4, LENGTH, DEPTH), **ANGLES, "places": PLACES}),
    Case(
        "RotaryEmbedding",
        "x places cos sin",
        {**ROWS, "places": PLACES, **{name: real(16, 2) for name in ("cos", "sin")}},
        {**HEADS, "rotary_embedding_dim": 4},
    ),
    Case("MultiHeadAttention", "q k v bias", QKV, HEADS),
    Case("MultiHeadAttention", "q k v - mask", {**QKV, **MASK}, {**HEADS, "scale": 0.3}),
    Case("MultiHeadAttention", "q k v - mask", {**QKV, **LENGTHS}, HEADS),
    Case("MultiHeadAttention", "q k v - mask", {**QKV, **SQUARE}, HEADS),
    Case("MultiHeadAttention", "q k v", BY_HEADS, HEADS),
    Case("MultiHeadAttention", "q k v bias - more past_k past_v", {**QKV, **PAST, **SCORES}, HEADS, PRESENT),
    Case("MultiHeadAttention", "q k v - - - past_k past_v", {**QKV, **PAST}, {**HEADS, "unidirectional": 1}, PRESENT),
    Case("GroupQueryAttention", GROUPED_READS, {**FEW, **FIRST}, GROUPED, PRESENT),
    Case("GroupQueryAttention", GROUPED_READS, {**PACKED_FEW, **FIRST, **DEEP_ANGLES}, {**GROUPED, **TURNED}, PRESENT),
    Case(
        "GroupQueryAttention",
        GROUPED_READS,
        {**{name: value[:1] for name, value in (PACKED_FEW | CACHE).items()}, **LATER, **DEEP_ANGLES},
        {**GROUPED, **TURNED},
        PRESENT,
    ),
    *(
        Case(
            "GroupQueryAttention",
            GROUPED_READS,
            {**STEP, **DEEP_ANGLES, "counted": np.array(each, np.int32)},
            attributes,
            PRESENT,
        )
        for each in ([BEFORE, BEFORE], [1, 3])
        for attributes in ({**GROUPED, **TURNED}, {**GROUPED, "local_window_size": 2, "softcap": 1.5})
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_is_what_onnx_runtime_computes(case: Case) -> None:
    model, inputs = case.model()
    wanted = run_onnxruntime(model, inputs)
    for graph in (import_onnx(model), convert(model)[0]):
        found = evaluate(graph, inputs)
        for name, value in zip(case.writes.replace("-", "").split(), wanted, strict=True):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=2e-5)


def test_each_function_has_a_case() -> None:
    assert {(case.domain, case.op) for case in CASES} == {*ONNX_FUNCTIONS, *decoder_onnx_functions.ONNX_FUNCTIONS}


def test_attention_becomes_one_operator() -> None:
    graph, _ = convert(CASES[0].model()[0])
    assert "Attention" in [node.op for node in graph.nodes]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (Case("Attention", "x w bias mask", {**ROWS, **ATTENTION, "mask": np.ones(4, np.int32)}, HEADS), "a mask of"),
        (Case("Attention", "x w bias", {**ROWS, **ATTENTION}, {"num_heads": 5}), "5 heads of weights"),
        (Case("MultiHeadAttention", "q", PACKED, HEADS), "packed"),
        (
            Case("GroupQueryAttention", GROUPED_READS, {**FEW, **FIRST}, {**GROUPED, "smooth_softmax": 1}),
            "smooth_softmax 1",
        ),
        (
            Case("RotaryEmbedding", "x places cos sin", {**ROWS, **ANGLES, "places": PLACES}, {"scale": 2.0}),
            "scale 2.0",
        ),
        (Case("QAttention", f"{Q_READS} - xz wz", QUANTIZED, {**HEADS, "do_rotary": 1}), "do_rotary 1"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_no_function_says_is_refused_with_the_nodes_name(case: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{case.op}.*{reason}"):
        import_onnx(case.model()[0])
