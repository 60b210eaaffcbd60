"""Assembles a plan: gives the values of launches their places in memory, and makes a step of each launch."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Container, Hashable, Iterable, Sequence

import numpy as np

from runtime.errors import UnsupportedError
from runtime.graph import Array
from runtime.kernels.spec import ArgumentForm
from runtime.lowering.builder import Builder
from runtime.lowering.contents import stored_tensors
from runtime.lowering.launch import Launch
from runtime.lowering.memory import BufferLifetime, ImageLifetime, plan_arenas, plan_images
from runtime.lowering.value import Value
from runtime.plan.plan import IMAGE_FORMATS, PIXEL_BYTES, Arg, Image, Plan, Pool, Size3, Step, Tensor, WeightPacking
from runtime.plan.plan_data import MOST_IN_MEMORY, Constant, LaidOutData, PackedConstant, PlanData, release_memory
from runtime.plan.records import ArgKind, PoolKind, StepKind
from runtime.semantics.quantization import Quantization
from runtime.types import ImageFormat, Precisions, Role, Storage

_ARGS_OF_FORM = {
    ArgumentForm.VIEW: 3,
    ArgumentForm.FLAT: 2,
    ArgumentForm.WEIGHTS: 2,
    ArgumentForm.TABLE: 2,
    ArgumentForm.ELEMENTS: 2,
    ArgumentForm.BYTES: 2,
    ArgumentForm.IMAGE: 1,
}
# Values are not shared across more than this many bytes of element offsets in a kernel's 32-bit integers.
_MAX_POOL_BYTES = 1 << 31
_SAMPLES = 64  # bytes by which most constants differ


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a value lies: the index of its pool or image, and in a pool the offset in bytes."""

    index: int
    offset: int = 0


class PlacedValues:
    """The places of all root values, those whose memory other values are parts of; made on construction.

    `data` is the content of the data file.
    """

    def __init__(self, builder: Builder) -> None:
        self.pools: list[Pool] = []
        self.images: list[Image] = []
        self.peak_bytes = self.sum_bytes = 0
        self._places: dict[int, _Place] = {}
        on_cpu = builder.target.memory == "cpu"
        self._limit = min(_MAX_POOL_BYTES if on_cpu else builder.target.max_allocation_bytes, _MAX_POOL_BYTES)
        self._separate = builder.options.separate_weights
        spans = lifetimes(builder)
        roots = list(spans)
        reuse = builder.options.reuse_memory
        self._laid_out = LaidOutData()
        gpu = [launch for launch in builder.launches if launch.kind == StepKind.OPENCL]
        on_device = {value.root for launch in gpu for value, _ in launch.tensors}
        self._place_weights([root for root in roots if root.data is not None], on_device)
        is_small = len(self._laid_out) <= MOST_IN_MEMORY
        self.data: PlanData = bytes(self._laid_out) if is_small else self._laid_out
        live = [root for root in roots if root.data is None]
        self._place_scratch([r for r in live if r.storage != Storage.IMAGE], spans, reuse)
        self._place_images([r for r in live if r.storage == Storage.IMAGE], spans, reuse)

    def __getitem__(self, root: Value) -> _Place:
        return self._places[id(root)]

    def _place_weights(self, roots: Sequence[Value], on_device: Container[Value]) -> None:
        """Puts distinct constants into the data file: buffers in pools within the allocation limit, images alone.

        What only CPU steps read needs no memory of the device, whatever its size.
        """
        placed: dict[Hashable, list[tuple[Constant, _Place]]] = {}
        for root in (r for r in roots if r.storage != Storage.IMAGE):
            assert root.data is not None
            if root.data.nbytes > (self._limit if root in on_device else _MAX_POOL_BYTES):
                raise self._too_large(f"weights '{root.name}'", root.data.nbytes)
            same = placed.setdefault(_sample(root.data), [])
            place = next((place for other, place in same if _is_same(root.data, other)), None)
            if place is None:
                place = self._append_weights(root.data)
                same.append((root.data, place))
            self._places[id(root)] = place
        for root in (r for r in roots if r.storage == Storage.IMAGE):
            self._places[id(root)] = self._append_image(root)

    def _append_weights(self, content: Constant) -> _Place:
        start = self._laid_out.append(content)
        end = len(self._laid_out)
        last = self.pools[-1] if self.pools else None
        if last is None or self._separate or end - last.data_offset > self._limit:
            self.pools.append(Pool(PoolKind.WEIGHTS, end - start, start))
        else:
            self.pools[-1] = dataclasses.replace(last, size=end - last.data_offset)
        return _Place(len(self.pools) - 1, start - self.pools[-1].data_offset)

    def _too_large(self, what: str, size: int) -> UnsupportedError:
        remedy = "runtime: cpu has no such limit, cpu+gpu has none for weights, and fp16_fp32 needs half of fp32_fp32"
        return UnsupportedError(f"{what}: {size} bytes; the device allocates {self._limit} at most; {remedy}")

    def _append_image(self, root: Value) -> _Place:
        assert isinstance(root.data, np.ndarray)
        height, width, _ = root.data.shape
        self.images.append(Image(width, height, _format(root), self._laid_out.append(root.data)))
        return _Place(len(self.images) - 1)

    def _place_scratch(self, roots: Sequence[Value], spans: dict[Value, tuple[int, int]], reuse: bool) -> None:
        needs = [BufferLifetime(root.size_bytes, *spans[root]) for root in roots]
        for root, need in zip(roots, needs, strict=True):
            if need.size > self._limit:
                raise self._too_large(f"tensor '{root.name}'", need.size)
        places, sizes = plan_arenas(needs, self._limit, reuse)
        first = len(self.pools)
        self.pools += [Pool(PoolKind.SCRATCH, size) for size in sizes]
        for root, place in zip(roots, places, strict=True):
            self._places[id(root)] = _Place(first + place.arena, place.offset)
        self.peak_bytes += sum(sizes)
        self.sum_bytes += sum(need.size for need in needs)

    def _place_images(self, roots: Sequence[Value], spans: dict[Value, tuple[int, int]], reuse: bool) -> None:
        sizes = [image_size_of(root) for root in roots]
        needs = [ImageLifetime(*s, _format(r), *spans[r]) for r, s in zip(roots, sizes, strict=True)]
        chosen, slots = plan_images(needs, self._limit, reuse)
        first = len(self.images)
        self.images += [Image(width, height, ImageFormat(form)) for width, height, form in slots]
        for root, slot in zip(roots, chosen, strict=True):
            self._places[id(root)] = _Place(first + slot)
        self.peak_bytes += sum(w * h * PIXEL_BYTES[ImageFormat(form)] for w, h, form in slots)
        self.sum_bytes += sum(root.size_bytes for root in roots)


def _sample(constant: Constant) -> Hashable:
    """What constants of equal content have in common, and few others."""
    if isinstance(constant, PackedConstant):
        return constant.sample()
    content = _bytes_of(constant)
    some = content[:_SAMPLES], content[:: max(len(content) // _SAMPLES, 1)]
    sample = (len(content), *(each.tobytes() for each in some))
    release_memory(constant)
    return sample


def _is_same(constant: Constant, other: Constant) -> bool:
    """Whether two of one sample have the same content."""
    if isinstance(constant, PackedConstant):
        return isinstance(other, PackedConstant) and constant.is_same(other)
    if isinstance(other, PackedConstant):
        return False
    is_same = np.array_equal(_bytes_of(constant), _bytes_of(other))
    release_memory(constant)
    release_memory(other)
    return is_same


def _bytes_of(constant: Array) -> Array:
    return np.ascontiguousarray(constant).reshape(-1).view(np.uint8)


def image_size_of(value: Value) -> tuple[int, int]:
    """Returns width and height, in pixels, of the image that holds a value."""
    height, width, _ = value.stored.shape
    return width, height


def _format(value: Value) -> ImageFormat:
    return IMAGE_FORMATS[value.element]


def lifetimes(builder: Builder) -> dict[Value, tuple[int, int]]:
    """Returns the first and the last step that use each root value.

    Inputs live from before the first step, outputs until after the last one.
    """
    spans: dict[Value, tuple[int, int]] = {}
    for index, launch in enumerate(builder.launches):
        for value, _ in launch.tensors:
            first, _last = spans.get(value.root, (index, index))
            spans[value.root] = (first, index)
    end = len(builder.launches)
    for value in builder.inputs:
        spans[value.root] = (-1, end)
    for value in builder.outputs:
        spans[value.root] = (spans.get(value.root, (-1, end))[0], end)
    return spans


def assemble_plan(builder: Builder) -> Plan:
    """The plan of all launches of a builder."""
    memory = PlacedValues(builder)
    steps = tuple(_step(launch, memory, builder) for launch in builder.launches)
    return Plan(
        model=builder.graph.name,
        target=builder.target,
        pools=tuple(memory.pools),
        images=tuple(memory.images),
        steps=steps,
        tensors=tuple(_tensors(builder, memory)),
        data=memory.data,
        peak_bytes=memory.peak_bytes,
        sum_bytes=memory.sum_bytes,
        contents=stored_tensors(builder),
        precisions=_precisions(builder),
    )


def _precisions(builder: Builder) -> Precisions:
    choice = builder.options.choice
    return (choice and choice.precisions) or (builder.target.precision,)


def _step(launch: Launch, memory: PlacedValues, builder: Builder) -> Step:
    sizes = launch_sizes(launch, builder)
    name = _obfuscated(launch.name) if builder.options.obfuscate else launch.name
    return Step(
        name=name,
        op=launch.op,
        kernel=launch.kernel,
        kind=launch.kind,
        variant=launch.variant,
        defines=launch.defines,
        dims=launch.dims,
        args=tuple(_args(launch, memory)),
        work_dim=sizes[0],
        global_size=sizes[1],
        local_size=sizes[2],
        tuning_key=launch.tuning_key,
        macs=launch.macs,
        packs=tuple(_packs(launch)),
        shown=launch.shown,
        note=launch.note,
        precision=launch.precision,
        element=launch.output.element,
    )


def _obfuscated(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def launch_sizes(launch: Launch, builder: Builder) -> tuple[int, Size3, Size3]:
    """Work dimensions, global size (rounded up to the local size) and default local size."""
    if launch.kind == StepKind.CPU:
        return 1, (1, 1, 1), (0, 0, 0)
    items = launch.kernel.work_items(launch.dims, launch.variant)
    choose = launch.kernel.local_size
    local = choose(launch.dims, launch.variant, builder.target) if choose else (0,) * len(items)
    return len(items), round_up(items, local), size3(local, 0)


def round_up(items: Sequence[int], local: Sequence[int]) -> Size3:
    """Rounds each extent up to a multiple of the local size, where that is not 0; returns the global size."""
    sizes = [-(-item // max(step, 1)) * max(step, 1) for item, step in zip(items, local, strict=True)]
    return size3(sizes, 1)


def size3(values: Sequence[int], fill: int) -> Size3:
    """Extends a size of one to three dimensions to three, with `fill` in the unused ones."""
    a, b, c = (*values, *[fill] * (3 - len(values)))
    return a, b, c


def _args(launch: Launch, memory: PlacedValues) -> Iterable[Arg]:
    for value, form in launch.tensors:
        place = memory[value.root]
        if form == ArgumentForm.IMAGE:
            yield Arg(ArgKind.IMAGE, place.index)
            continue
        yield Arg(ArgKind.POOL, place.index)
        unit = {ArgumentForm.BYTES: 1, ArgumentForm.TABLE: 4}.get(form, value.element_bytes)
        yield Arg(ArgKind.INT, place.offset // unit + value.root_offset * value.element_bytes // unit)
        if form == ArgumentForm.VIEW:
            yield Arg(ArgKind.INT, value.stride or value.shape[-1])
    yield from (Arg(ArgKind.INT, dim) for dim in launch.dims.values())
    yield from (Arg(ArgKind.FLOAT, number) for number in launch.floats)


def _packs(launch: Launch) -> Iterable[WeightPacking]:
    positions: dict[str, int] = {}
    position = 0
    for argument, form in launch.kernel.tensors:
        positions[argument] = position
        position += _ARGS_OF_FORM[form]
    for packed in launch.packed:
        yield WeightPacking(positions[packed.argument], packed.groups, packed.rows, packed.cols, packed.block)


def _tensors(builder: Builder, memory: PlacedValues) -> Iterable[Tensor]:
    writers = {id(launch.output.root): index for index, launch in enumerate(builder.launches)}
    for value in (*builder.inputs, *builder.outputs):
        place = memory[value.root]
        offset = place.offset // value.element_bytes + value.root_offset
        step = None if value.role == Role.INPUT else writers.get(id(value.root))
        where = (value.storage, value.element, value.shape, place.index, offset, value.stride, step)
        yield Tensor(value.name, value.role, *where, _integers(builder, value.name))


def _integers(builder: Builder, tensor: str) -> Quantization | None:
    """What the integers of a tensor stand for; a float stands for itself, whatever it was made of."""
    info = builder.graph.tensors.get(tensor)
    if info is None or info.quantization is None or info.quantization.integers != info.dtype.name:
        return None
    return info.quantization
