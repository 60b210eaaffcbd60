"""How fast networks are in eight bits on the runtime cpu, beside floats and other engines, and how large, as a table.

Those of the zoo in QDQ, and some as quantize_dynamic writes them (NAME.dynamic), beside ONNX Runtime; those of
keras.applications (NAME.tflite, where TensorFlow is installed) in LiteRT's integers, beside ONNX Runtime on what they
are converted to, and LiteRT with XNNPACK on the very file.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.engines import Farmrt, LiteRt, OnnxRuntime, WithInstructions, cores, test_inputs
from benchmarks.figures import ONNX_RUNTIME
from benchmarks.framework_networks import make_apart
from benchmarks.instructions import MILLION, of_a_round
from benchmarks.interleaving import ContenderTimes, Late, measure_interleaved
from benchmarks.machine import Others, machine
from benchmarks.networks import closed_shape
from benchmarks.scratch import scratch
from farm.config import deployment
from farm.config.execution import Execution
from farm.config.given_model import GivenModel
from farm.config.inventory import HOST
from farm.jobs.fleet.opening import open_unit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared, prepare
from farm.model import deployments, fetch
from farm.model.reference_process import ReferenceProcess
from farm.quantization import layers, qdq
from farm.quantization.calibration import Calibration
from farm.quantization.methods import chosen_range
from runtime import zoo
from runtime.lowering.lower import lower
from runtime.statistics.ratios import ratio_of_pairs
from runtime.target import Target
from runtime.types import Precision

NETWORKS = (*("mobilenet_v1", "mobilenet_v2", "squeezenet_v11", "resnet50", "inception_v3"), *("vit_tiny", "bert_mini"))
LITERT, DYNAMIC = ".tflite", ".dynamic"
DYNAMIC_NETWORKS = tuple(f"{name}{DYNAMIC}" for name in ("bert_mini", "mobilenet_v2", "squeezenet_v11"))
APPLICATIONS = tuple(f"{name}{LITERT}" for name in ("MobileNet", "MobileNetV2", "MobileNetV3Large", "ResNet50"))
COLUMNS = (
    *("", "threads", "ms", "over float", "over ONNX Runtime's", "where it cuts no sums off"),
    *("over LiteRT's", "data over float's"),
)
THREADS = (1, 2)
Models = tuple[Prepared, Prepared, Path | None]  # floats, integers, and the file of these for LiteRT
LIMIT_S = 20.0  # of one comparison in turns


def table(networks: list[str], turns: int, isa: str = "") -> Iterator[str]:
    """The lines: our latency in eight bits, its ratio to the others' of pairs of turns, and that of the plans' data.

    With an instruction set both of ours are forced to it, and no others are measured.
    """
    others = Others()
    columns = (*COLUMNS[:4], COLUMNS[-1]) if isa else COLUMNS
    yield f"| {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * (len(columns) - 1)}"
    for network in networks:
        with TemporaryDirectory() as folder:
            makers = {LITERT: _applications, DYNAMIC: _dynamic_models}
            make = next((maker for end, maker in makers.items() if network.endswith(end)), zoo_models)
            floats, whole, litert = make(network, Path(folder))
            for threads in THREADS:
                (own, *beside), size = _measured(floats, whole, litert, threads, turns, isa)
                ms = statistics.median(map(statistics.median, own.turns))
                cells = [
                    f"{ms:.1f}",
                    *(_over(own, x) for x in beside),
                    *["-"] * (len(columns) - 4 - len(beside)),
                    f"{size:.2f}",
                ]
                yield f"| {network} | {threads} | {' | '.join(cells)} |"
    busy = others.cores()
    state = "busy: " if busy > 0.1 * cores() else ""
    yield ""
    yield f"{machine().cpu}, {cores()} cores; {state}other work took {busy:.1f} of them meanwhile. Per channel, minmax."


def default_networks() -> list[str]:
    """Those that can be made here."""
    is_there = all(importlib.util.find_spec(name) for name in ("tensorflow", "tf2onnx", "ai_edge_litert"))
    return [*NETWORKS, *DYNAMIC_NETWORKS, *(APPLICATIONS if is_there else ())]


def _applications(network: str, folder: Path) -> Models:
    """A network of keras.applications as .tflite in floats and in integers, and the latter's file."""
    name = network.removesuffix(LITERT)
    made = []
    for maker, model in (("litert_application", name), ("litert_integers", f"{name}_8bit")):
        make_apart(maker, folder, name)
        source = deployment.load(folder / f"{model}.yml")
        made.append(prepare(source, model, fetch.Fetcher(source)))
    return made[0], made[1], folder / f"{name}_8bit.tflite"


def _dynamic_models(network: str, folder: Path) -> Models:
    """A network in float, and as quantize_dynamic writes it: weights of a convolution are unsigned there."""
    source = zoo.from_url(f"zoo://{network.removesuffix(DYNAMIC)}")
    floats = _prepared(source, folder / "floats.onnx")
    kind = QuantType.QUInt8 if any(node.op_type == "Conv" for node in source.graph.node) else QuantType.QInt8
    quantize_dynamic(folder / "floats.onnx", folder / "written.onnx", weight_type=kind)
    return floats, _prepared(onnx.load(folder / "written.onnx"), folder / "dynamic.onnx"), None


def zoo_models(network: str, folder: Path) -> Models:
    """A network in float and in QDQ, with ranges of its validation inputs."""
    source = zoo.from_url(f"zoo://{network}")
    floats = _prepared(source, folder / f"{network}.onnx")
    process = ReferenceProcess(is_exact=True)
    model = layers.float_model(floats.standard(), process)
    parts = layers.layers_of(model)
    names = layers.activations(model, parts)
    calibration = Calibration(process, model, names, folder / "ranges.npz")
    calibration.run({"validation": functools.partial(test_inputs, floats)}, lambda done: None)
    ranges = {name: chosen_range("minmax", calibration.histograms[name]) for name in names}
    whole = _prepared(qdq.quantized(model, parts, ranges, per_channel=True), folder / f"{network}_qdq.onnx")
    return floats, whole, None


def _prepared(model: onnx.ModelProto, path: Path) -> Prepared:
    path.write_bytes(model.SerializeToString())
    shapes = tuple((each.name, closed_shape(each)) for each in model.graph.input)
    source = deployments.load(GivenModel(path, shapes, None, False))
    (name,) = source.models
    return prepare(source, name, fetch.Fetcher(source))


def _measured(
    floats: Prepared, whole: Prepared, litert: Path | None, threads: int, turns: int, isa: str
) -> tuple[list[ContenderTimes], float]:
    """Ours in eight bits and in float, ONNX Runtime (default, exact) and LiteRT; and our data over that in float."""
    forced = WithInstructions(isa=isa) if isa else Execution()
    inputs, options = test_inputs(floats), LoadOptions(tuned=NO_ARTIFACT, execution=forced)
    with contextlib.ExitStack() as stack:
        stack.enter_context(scratch())
        opened = stack.enter_context(open_unit(HOST))
        ours = [
            Farmrt(
                name,
                stack.enter_context(opened.twin()),
                given.with_execution(Execution(num_threads=threads)),
                inputs,
                options,
                "cpu",
            )
            for name, given in {"int8": whole, "float": floats}.items()
        ]
        others = [LiteRt(litert, inputs, threads)] if litert and not isa else []
        size = len(ours[0].plan.data) / len(ours[1].plan.data)
        theirs = [
            Late(ONNX_RUNTIME, functools.partial(OnnxRuntime, whole.source, inputs, threads, exact))
            for exact in (False, True)
            if not isa
        ]
        return measure_interleaved([*ours, *theirs, *others], turns, LIMIT_S), size


def _over(own: ContenderTimes, other: ContenderTimes) -> str:
    own_ms, other_ms = ([statistics.median(turn) for turn in lane.turns] for lane in (own, other))
    ratio = ratio_of_pairs(own_ms, other_ms)
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else "refused" if other.reason else "-"


# How many instructions of an arm64 CPU a network takes in halves and in bytes over those in floats: counted in qemu
# (`benchmarks/instructions.py`).
#
# An instruction is no cycle: of a product of halves it does twice as much as of floats, of bytes four times (SDOT), or
# eight times (I8MM).
COUNTED = ("mobilenet_v1?size=64", "mobilenet_v1", "resnet50?size=64")  # qemu writes a line for each block it runs
CPUS = {"SDOT": ("neoverse-n1", "dotprod"), "I8MM": ("max", "i8mm")}  # qemu's CPU, and farmrt's instruction set
ABI = "arm64"
TARGET = Target("arm64", ABI, memory="cpu")
HALVES = dataclasses.replace(TARGET, precision=Precision.FP16)


def instruction_table(networks: list[str]) -> Iterator[str]:
    """The lines: millions of instructions of one inference in floats, and the ratios in halves and each CPU's bytes."""
    columns = ["halves over floats", *(f"{name} over floats" for name in CPUS)]
    yield f"| | millions in floats | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * (1 + len(columns))}"
    for network in networks:
        with TemporaryDirectory() as folder:
            floats, whole, _ = zoo_models(network, Path(folder))
            plain, *others = (
                of_a_round(ABI, lower(floats.graph, TARGET), *CPUS["SDOT"]),
                of_a_round(ABI, lower(floats.graph, HALVES), *CPUS["SDOT"]),
                *(of_a_round(ABI, lower(whole.graph, TARGET), *cpu) for cpu in CPUS.values()),
            )
            ratios = " | ".join(f"{each / plain:.2f}" for each in others)
            yield f"| {network} | {plain / MILLION:.0f} | {ratios} |"
