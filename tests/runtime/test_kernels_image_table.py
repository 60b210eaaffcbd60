"""Each row of the image table has its source's arguments; all variants and local sizes compute the same."""

import dataclasses
import re

import numpy as np
import pytest

from runtime.kernels.source import program_source
from runtime.kernels.spec import ArgumentForm
from runtime.kernels.table import IMAGE_KERNELS as KERNELS
from runtime.target import Target
from runtime.types import Precision
from tests.opencl import is_exhaustive, turn
from tests.runtime.image_launch import (
    TABLE,
    TARGET,
    TOLERANCE,
    UNBOUNDED,
    built_at_once,
    launch,
    precisions,
    random,
)

pytestmark = pytest.mark.opencl

WINDOW = {"k_h": 3, "k_w": 2, "stride_h": 2, "stride_w": 1, "pad_t": 1, "pad_l": 1, "dil_h": 1, "dil_w": 2}
SPATIAL = {"batch": 2, "in_h": 5, "in_w": 6, "out_h": 3, "out_w": 6}
SPREAD = WINDOW | {"batch": 2, "in_h": 3, "in_w": 6, "out_h": 5, "out_w": 6, "step_h": 2, "step_w": 1}
EXTENTS = {"batch": 2, "channels": 6, "height": 3, "width": 5}
OPERANDS = {f"{name}_{axis}": size for name in "ab" for axis, size in EXTENTS.items()}
NCHW = {"stride_n": 90, "stride_c": 15, "stride_h": 5, "stride_w": 1}
TILES = {"batch": 2, "tiles_h": 2, "tiles_w": 3}
EPILOGUE = {"ACTIVATION": 0, "RESIDUAL": 1}
# Output buffers are given; all other tensors without a shape here have the one that the row tells.
SHAPES = {
    "buffer_to_image": {"x": (180,)},
    "image_to_buffer": {"y": (180,)},
    "concat": {"a": (1, 3, 3, 5), "b": (1, 4, 3, 5), "c": (1, 2, 3, 5), "d": (1, 4, 3, 5)},
    "slice": {"x": (2, 9, 4, 7)},
}
JOINED = {"a_channels": 3, "b_channels": 4, "c_channels": 2, "d_channels": 4, "y_block": 0}
PART = {"start_n": 0, "start_c": 1, "start_h": 1, "start_w": 2, "step_h": 1, "step_w": 1, "in_h": 4, "in_w": 7}
# Kernel -> dims, floats, defines.
CASES = {
    "conv2d": (SPATIAL | WINDOW | {"in_c": 4, "out_c": 8, "groups": 2}, UNBOUNDED, EPILOGUE),
    "conv1x1": ({"rows": 3, "width": 5, "in_c": 6, "out_c": 9}, UNBOUNDED, EPILOGUE),
    "depthwise": (SPATIAL | WINDOW | {"channels": 6}, UNBOUNDED, EPILOGUE),
    "deconv2d": (SPREAD | {"in_c": 4, "out_c": 8, "groups": 2}, UNBOUNDED, EPILOGUE),
    "deconv_depthwise": (SPREAD | {"channels": 6}, UNBOUNDED, EPILOGUE),
    "fully_connected": ({"batch": 2, "in_h": 2, "in_w": 3, "in_c": 6, "out_c": 9}, UNBOUNDED, {"ACTIVATION": 0}),
    "winograd_input": (TILES | {"in_h": 3, "in_w": 5, "in_c": 6, "pad_t": 1, "pad_l": 1}, (), {"WINO": 2}),
    "winograd_gemm": ({"points": 16, "tiles": 7, "in_c": 6, "out_c": 9}, (), {"WINO": 2}),
    "winograd_output": (TILES | {"out_h": 3, "out_w": 5, "out_c": 6}, UNBOUNDED, EPILOGUE | {"WINO": 2}),
    "pool": (SPATIAL | WINDOW | {"channels": 6, "count_include_pad": 0}, (), {"POOL": 0}),
    "resize_nearest": (SPATIAL | {"channels": 6}, (), {}),
    "resize_bilinear": (SPATIAL | {"channels": 6}, (1.7, 1.0, 0.0, 0.0), {}),
    "reduce": (EXTENTS, (), {"REDUCE": 0}),
    "softmax": (EXTENTS, (), {"LOG": 0}),
    "normalization": (EXTENTS | {"groups": 6, "spatial": 1, "centered": 1}, (0.1, *UNBOUNDED), {"ACTIVATION": 0}),
    "lrn": (EXTENTS | {"size": 3}, (0.5, 0.75, 1.0), {}),
    "binary": (EXTENTS | OPERANDS, UNBOUNDED, {"BINARY": 0, "ACTIVATION": 0}),
    "unary": (EXTENTS, (-0.5, 0.5), {"UNARY": 0}),
    "scale_shift": (EXTENTS, UNBOUNDED, {"ACTIVATION": 0}),
    "buffer_to_image": (EXTENTS | NCHW, (), {"SRC_F32": 1}),
    "image_to_buffer": (EXTENTS | NCHW, (), {"DST_F32": 1}),
    "concat": ({"rows": 3, "width": 5} | JOINED, (), {}),
    "slice": (EXTENTS | PART, (), {}),
    "channel_shuffle": (EXTENTS | {"groups": 3}, (), {}),
    "depth_to_space": (EXTENTS | {"height": 4, "width": 6, "size": 2}, (), {"CRD": 0}),
    "space_to_depth": (EXTENTS | {"size": 2, "in_c": 5, "channels": 20}, (), {"CRD": 0}),
    "pad": (EXTENTS | {"in_h": 2, "in_w": 4, "pad_t": 1, "pad_l": 0}, (0.5,), {"PAD": 0}),
}
TABLES = {"rows": np.array([0, 2, 4], np.int32), "columns": np.array([5, 0, 1, 1, 3, 2], np.int32)}
LOCAL_SIZES = ((1, 1, 1), (5, 1, 2), (8, 4, 4))
NAMES = pytest.mark.parametrize("name", sorted(TABLE))


def run(name, variant=None, local=(2, 3, 1), precision=Precision.FP32):
    """Launches the kernel's case and returns its result."""
    dims, floats, defines = CASES[name]
    kernel = TABLE[name]
    shapes = {argument: shape for argument, (_, shape) in kernel.images(dims, defines).items()} | SHAPES.get(name, {})
    given = kernel.tensors if kernel.tensors[-1][1] == ArgumentForm.FLAT else kernel.tensors[:-1]
    tensors = {
        argument: TABLES[argument] if form == ArgumentForm.TABLE else random(seed, *shapes[argument])
        for seed, (argument, form) in enumerate(given)
    }
    return launch(name, tensors, dims, floats, defines, variant, precision, local)


def test_every_row_has_a_case():
    assert set(CASES) == {kernel.name for kernel in KERNELS}
    assert len(TABLE) == len(KERNELS)


@NAMES
def test_arguments_of_the_source_are_those_of_the_row(name):
    kernel = TABLE[name]
    found = re.search(rf"kernel void {name}\((.*?)\)\s*{{", program_source(kernel), re.DOTALL)
    expected = []
    for argument, form in kernel.tensors:
        is_image = form == ArgumentForm.IMAGE
        expected += [("image2d_t", argument)] if is_image else [("pointer", argument), ("int", f"{argument}_offset")]
    expected += [("int", argument) for argument in kernel.ints] + [("float", argument) for argument in kernel.floats]
    assert [declared(each) for each in found[1].split(",")] == expected


def declared(argument):
    """(type, name) of an argument in the source."""
    *words, name = argument.replace("*", " pointer ").split()
    return words[-1], name


def all_launches(kernel):
    """(variant, precision, local size): the default variant with several sizes; the first one in each precision, the
    others in turns."""
    dims = CASES[kernel.name][0]
    default = kernel.default_variant(dims, TARGET)
    launches = [(default, Precision.FP32, local) for local in LOCAL_SIZES]
    for number, variant in enumerate(kernel.variants):
        targets = [dataclasses.replace(TARGET, precision=each, fp16=True) for each in precisions()]
        able = [target.precision for target in targets if not kernel.fits(dims, variant, target)]
        launches += [(variant, each, (1, 2, 3)) for each in turn(number, able, is_exhaustive(kernel) or not number)]
    return launches


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_variant_local_size_and_precision_gives_the_same(kernel):
    launches, expected = all_launches(kernel), run(kernel.name)
    defines = CASES[kernel.name][2]
    with built_at_once(kernel.name, [(variant, precision, defines) for variant, precision, _ in launches]):
        for variant, precision, local in launches:
            actual = run(kernel.name, variant, local, precision)
            within = 2e-6 if precision == Precision.FP32 else TOLERANCE[precision] * np.abs(expected).max()
            told = f"{variant.name}, {precision.name}, local {local}"
            np.testing.assert_allclose(actual, expected, rtol=0, atol=within, err_msg=told)


@NAMES
def test_defaults_are_variants_and_their_local_sizes_legal(name):
    kernel, (dims, _, _) = TABLE[name], CASES[name]
    assert {chosen for family in kernel.defaults.values() for chosen in family} <= set(kernel.variants)
    for family in ("adreno-6xx", "mali-bifrost", "pocl-3.1", "cpu", "unknown"):
        small = Target(soc="s", abi="a", gpu_family=family, max_work_group_size=24, max_work_item_sizes=(24, 24, 4))
        variant = kernel.default_variant(dims, small)
        assert variant in kernel.variants
        size = kernel.local_size(dims, variant, small)
        grid = kernel.work_items(dims, variant)
        assert len(size) == len(grid) == 3
        assert np.prod(size) <= 24
        assert all(1 <= items <= most for items, most in zip(size, small.max_work_item_sizes, strict=True))


@NAMES
def test_a_small_image_limit_is_named(name):
    kernel, (dims, _, _) = TABLE[name], CASES[name]
    tiny = dataclasses.replace(TARGET, image2d_max_width=1, image2d_max_height=1)
    assert "the device's limit is 1 x 1" in kernel.fits(dims, kernel.variants[0], tiny)
