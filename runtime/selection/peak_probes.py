"""Launches that show a device's peaks, as plans for trials: by their tuning keys a journal remembers what they took.

Each figure has a small probe, which any device runs in a moment, and what computes or moves much has a large one, for
devices where the small one takes about as long as any launch. Rates are of the fastest repetition of either. What is
moved is 256 KB, in a cache, or 8 MB: launches of models find their tensors in both.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from runtime.errors import UnsupportedError
from runtime.graph import Array, Graph, TensorInfo
from runtime.kernels.buffer.peak import FIRST, PEAK_MACS, STARTS
from runtime.kernels.spec import MemoryType
from runtime.layout.image import ImageLayout
from runtime.lowering.assembly import assemble_plan
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Launch
from runtime.lowering.options import Options
from runtime.lowering.trials import TrialLaunch, TrialPlan, Use
from runtime.lowering.value import Value
from runtime.peaks import MeasuredPeaks, PeakFigure
from runtime.plan.plan import Expectation, Plan
from runtime.plan.plan_data import LaidOutData
from runtime.selection.costs import cost_key
from runtime.semantics.unary import Unary
from runtime.target import Target
from runtime.types import Precision, Storage

LARGE_MS, LAUNCHES = 0.1, 3.0  # a large probe where the small one takes no more than that, or than so many launches
MOST_LARGE_MS = 0.3  # but never where it takes more than that
_MODEL, _OPERATOR = "peaks", "PeakProbe"
_EXTENTS, _STRIDES = ("batch", "channels", "height", "width"), ("stride_n", "stride_c", "stride_h", "stride_w")
_TAKEN = 1024  # elements of what a probe wrote that are compared, and of the shortest launch
_FACTOR, _STEP, _SUM = 0.25, 0.375, 6.0  # 12 sums that become step / (1 - factor), exact in half too
_ELEMENTS = 4096  # that the multiply-adds are spread over, for each compute unit
_ROUNDS = (16, 4096)
_FLOATS = (32_768, 1_048_576)
_SHAPES = ((1, 32, 32, 32), (1, 128, 64, 128))  # of images with as many elements
_EVERYTHING = {"alpha": -math.inf, "beta": math.inf}  # what a clamp lets pass
_FLOAT_BYTES = 4
# What a figure may be: a launch of 10 s, or a driver whose clock stands still, says nothing of a device.
_PLAUSIBLE = {
    PeakFigure.MACS: (1e3, 1e12),
    PeakFigure.HALF_MACS: (1e3, 1e13),
    PeakFigure.BUFFER_BYTES: (1e2, 1e11),
    PeakFigure.IMAGE_BYTES: (1e2, 1e11),
    PeakFigure.LAUNCH_MS: (1e-5, 1e3),
}


@dataclasses.dataclass(frozen=True)
class PeakProbe:
    """A launch that shows a figure. `work`: its multiply-adds, or the bytes that it reads and writes."""

    figure: PeakFigure
    is_large: bool
    work: float
    launch: Launch
    key: str

    @property
    def together(self) -> tuple[bool, bool, bool]:
        """Probes of the same may be in one plan: what a driver lacks spoils no other, nor does what takes long."""
        return self.is_large, self.figure == PeakFigure.IMAGE_BYTES, self.figure == PeakFigure.HALF_MACS


def probes(target: Target) -> list[PeakProbe]:
    """The probes of a target, the most telling first; without those that it cannot run."""
    found = []
    for figure, is_large in _KINDS:
        if _has(target, figure):
            builder = _builder(target, [(figure, is_large)])
            launch = builder and _of(builder.launches, figure)
            if launch:
                work = _work(launch)
                found.append(PeakProbe(figure, is_large, work, launch, cost_key(launch)))
    return found


def wanted(probe: PeakProbe, known: Iterable[PeakProbe], best_ms: Mapping[str, float]) -> bool:
    """Whether a probe is worth its time, by what the small ones took: a large one may take minutes on a slow device."""
    if not probe.is_large:
        return True
    small = (each for each in known if each.figure == probe.figure and not each.is_large)
    small_ms = min((best_ms.get(each.key, math.inf) for each in small), default=math.inf)
    launch_ms = _launch_ms(known, best_ms) or 0.0
    return small_ms <= min(max(LARGE_MS, LAUNCHES * launch_ms), MOST_LARGE_MS)


def peaks_from(known: Iterable[PeakProbe], best_ms: Mapping[str, float]) -> MeasuredPeaks:
    """The peaks that the fastest repetition of each probe shows, by its key; what makes no sense is left out."""
    known = list(known)
    launch_ms = _launch_ms(known, best_ms)
    figures = {} if launch_ms is None else {PeakFigure.LAUNCH_MS: launch_ms}
    for probe in known:
        time_ms = best_ms.get(probe.key, math.inf)
        if probe.figure == PeakFigure.LAUNCH_MS or not math.isfinite(time_ms) or time_ms < 2.0 * (launch_ms or 0.0):
            continue
        rate = probe.work / max(time_ms - (launch_ms or 0.0), 1e-9)
        figures[probe.figure] = max(rate, figures.get(probe.figure, 0.0))
    plausible = {each: value for each, value in figures.items() if _PLAUSIBLE[each][0] <= value <= _PLAUSIBLE[each][1]}
    return MeasuredPeaks(plausible)


def measured_peaks(target: Target, best_ms: Mapping[str, float]) -> MeasuredPeaks:
    """Computes a device's peaks from the fastest repetition of each of its timed probes, in ms by probe."""
    return peaks_from(probes(target), best_ms)


def probe_plan(target: Target, chosen: Sequence[PeakProbe]) -> TrialPlan:
    """A plan of some probes, which are of one precision. Each is checked by a few elements of what it wrote."""
    builder = _builder(target, [(each.figure, each.is_large) for each in chosen])
    assert builder is not None, "probes were lowered for this target before"
    plan, launches = assemble_plan(builder), []
    expectations, data = [], LaidOutData.beginning_with(plan.data)
    for probe in chosen:
        name = _name(probe.figure, probe.is_large)
        index = next(at for at, step in enumerate(plan.steps) if step.name == name)
        expected = np.full(_TAKEN, _SUM if "macs" in probe.figure else _FACTOR, np.float32)
        expectations.append(_expectation(plan, index, name, data.append(expected), expected))
        launches.append(_trial_launch(plan, index, probe))
    checked = dataclasses.replace(plan, data=data, expectations=tuple(expectations))
    return TrialPlan(checked, {"x": _input()}, tuple(launches))


def _input() -> Array:
    values = np.zeros((1, FIRST + STARTS), np.float32)
    values[0, :FIRST] = _FACTOR, _STEP
    return values


def _expectation(plan: Plan, index: int, name: str, offset: int, expected: Array) -> Expectation:
    tensor = next(at for at, each in enumerate(plan.tensors) if each.name == f"{name}.y" and each.step is not None)
    writer = plan.tensors[tensor].step
    assert writer is not None and writer > index
    return Expectation(index, writer, tensor, offset, expected.size)


def _trial_launch(plan: Plan, index: int, probe: PeakProbe) -> TrialLaunch:
    step = plan.steps[index]
    return TrialLaunch(
        key=probe.key,
        step=index,
        poison=None,
        kernel=step.kernel,
        dims=step.dims,
        defines=step.defines,
        precision=step.precision or plan.target.precision,
        variant=step.variant,
        local_size=step.local_size,
        uses=(Use(_MODEL, step.name),),
        macs=step.macs,
    )


def _builder(target: Target, kinds: Iterable[tuple[PeakFigure, bool]]) -> Builder | None:
    """The launches of some kinds of probes, each with what brings its input and takes its output; None: it has none."""
    kinds = list(kinds)
    precision = Precision.FP16 if PeakFigure.HALF_MACS in dict(kinds) else Precision.FP32
    target = dataclasses.replace(target, precision=precision, memory="buffer", allow_cpu=False)
    outputs = [f"{_name(*kind)}.y" for kind in kinds]
    shapes = {"x": (1, FIRST + STARTS), **dict.fromkeys(outputs, (1, _TAKEN))}
    tensors = {name: TensorInfo(shape, np.dtype(np.float32)) for name, shape in shapes.items()}
    builder = Builder(Graph(_MODEL, ["x"], outputs, [], tensors, {}), target, Options(reuse_memory=False))
    builder.add_input("x")
    try:
        for figure, is_large in kinds:
            _EMIT[figure](builder, _name(figure, is_large), int(is_large))
    except UnsupportedError:
        return None
    return builder


def _name(figure: PeakFigure, is_large: bool) -> str:
    return f"{figure}.{'large' if is_large else 'small'}"


def _of(launches: Iterable[Launch], figure: PeakFigure) -> Launch | None:
    return next((each for each in launches if each.name.startswith(f"{figure}.") and ":" not in each.name), None)


def _emit_macs(builder: Builder, name: str, size: int) -> None:
    elements = _ELEMENTS * max(builder.target.compute_units, 1)
    y = builder.scratch(f"{name}:y", elements)
    dims = {"rounds": _ROUNDS[size], "elements": elements}
    builder.launch(PEAK_MACS, name, PEAK_MACS.operator, {"x": builder.read("x", Storage.FLAT), "y": y}, dims)
    _take(builder, name, y)


def _emit_buffer(builder: Builder, name: str, size: int) -> None:
    _emit_copy(builder, name, _FLOATS[size])


def _emit_launch(builder: Builder, name: str, size: int) -> None:
    _emit_copy(builder, name, _TAKEN)


def _emit_copy(builder: Builder, name: str, elements: int) -> None:
    x, y = (builder.scratch(f"{name}:{end}", elements) for end in "xy")
    _copy(builder, f"{name}:x", builder.read("x", Storage.FLAT), x, elements, step=0)
    _copy(builder, name, x, y, elements)
    _take(builder, name, y)


def _emit_image(builder: Builder, name: str, size: int) -> None:
    """From image to image, by the same function."""
    shape = _SHAPES[size]
    x, y = (builder.scratch_image(f"{name}:{end}", shape, ImageLayout.CHANNEL_MAJOR) for end in "xy")
    extents = dict(zip(_EXTENTS, shape, strict=True))
    given, still = {"x": builder.read("x", Storage.FLAT), "y": x}, dict.fromkeys(_STRIDES, 0)
    _launch_on_images(builder, "buffer_to_image", f"{name}:x", given, extents | still, {"SRC_F32": 1})
    _launch_on_images(builder, "unary", name, {"x": x, "y": y}, extents, {"UNARY": int(Unary.CLAMP)})
    taken = dict(zip(_EXTENTS + _STRIDES, (1, 32, 1, 32, _TAKEN, 1, _TAKEN, 32), strict=True))
    tensors = {"x": y, "y": builder.write(f"{name}.y", Storage.FLAT)}
    _launch_on_images(builder, "image_to_buffer", f"{name}:y", tensors, taken, {"DST_F32": 1})
    builder.output(f"{name}.y")


def _launch_on_images(
    builder: Builder,
    kernel: str,
    name: str,
    tensors: Mapping[str, Value],
    dims: Mapping[str, int],
    defines: Mapping[str, int],
) -> None:
    builder.launch(kernel, name, _OPERATOR, tensors, dims, _EVERYTHING, defines, memory=MemoryType.IMAGE)


def _take(builder: Builder, name: str, y: Value) -> None:
    """The first elements of what a probe wrote, as an output of the plan."""
    _copy(builder, f"{name}:y", y, builder.write(f"{name}.y", Storage.FLAT), _TAKEN)
    builder.output(f"{name}.y")


def _copy(builder: Builder, name: str, source: Value, value: Value, elements: int, step: int = 1) -> None:
    """By the element-wise function that changes nothing, always the same program: some drivers take long to build one.

    `step`: 0 repeats the first element.
    """
    dims = dict.fromkeys(("d0", "d1", "d2", "xs0", "xs1", "xs2", "ys0", "ys1", "ys2"), 1)
    dims |= {"d3": elements, "xs3": step, "ys3": 1}
    builder.launch("unary", name, _OPERATOR, {"x": source, "y": value}, dims, _EVERYTHING, {"UNARY": int(Unary.CLAMP)})


def _has(target: Target, figure: PeakFigure) -> bool:
    if figure == PeakFigure.IMAGE_BYTES:
        return target.image2d_max_width > 0
    return target.fp16 or figure != PeakFigure.HALF_MACS


def _work(launch: Launch) -> float:
    """Its multiply-adds, else the bytes of what it reads and writes."""
    return float(launch.macs or sum(value.size for value, _ in launch.tensors) * _FLOAT_BYTES)


def _launch_ms(known: Iterable[PeakProbe], best_ms: Mapping[str, float]) -> float | None:
    times = (best_ms.get(each.key, math.inf) for each in known if each.figure == PeakFigure.LAUNCH_MS)
    fastest = min(times, default=math.inf)
    return fastest if math.isfinite(fastest) else None


# The first ones are measured where there is little time.
_KINDS = (
    (PeakFigure.LAUNCH_MS, False),
    (PeakFigure.MACS, False),
    (PeakFigure.BUFFER_BYTES, False),
    (PeakFigure.IMAGE_BYTES, False),
    (PeakFigure.MACS, True),
    (PeakFigure.BUFFER_BYTES, True),
    (PeakFigure.HALF_MACS, False),
    (PeakFigure.HALF_MACS, True),
    (PeakFigure.IMAGE_BYTES, True),
)
_EMIT: Mapping[PeakFigure, Callable[[Builder, str, int], None]] = {
    PeakFigure.LAUNCH_MS: _emit_launch,
    PeakFigure.MACS: _emit_macs,
    PeakFigure.HALF_MACS: _emit_macs,
    PeakFigure.BUFFER_BYTES: _emit_buffer,
    PeakFigure.IMAGE_BYTES: _emit_image,
}
