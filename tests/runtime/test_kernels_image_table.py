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
from tests.runtime.families import IMAGE_CASES, IMAGE_SHAPES
from tests.runtime.image_launch import TABLE, TARGET, TOLERANCE, built_at_once, launch, precisions, random

pytestmark = pytest.mark.opencl

TABLES = {"rows": np.array([0, 2, 4], np.int32), "columns": np.array([5, 0, 1, 1, 3, 2], np.int32)}
LOCAL_SIZES = ((1, 1, 1), (5, 1, 2), (8, 4, 4))
NAMES = pytest.mark.parametrize("name", sorted(TABLE))


def run(name, variant=None, local=(2, 3, 1), precision=Precision.FP32):
    """Launches the kernel's case and returns its result."""
    dims, floats, defines = IMAGE_CASES[name]
    kernel = TABLE[name]
    shapes = {argument: shape for argument, (_, shape) in kernel.images(dims, defines).items()} | IMAGE_SHAPES.get(
        name, {}
    )
    given = kernel.tensors if kernel.tensors[-1][1] == ArgumentForm.FLAT else kernel.tensors[:-1]
    tensors = {
        argument: TABLES[argument] if form == ArgumentForm.TABLE else random(seed, *shapes[argument])
        for seed, (argument, form) in enumerate(given)
    }
    return launch(name, tensors, dims, floats, defines, variant, precision, local)


def test_every_row_has_a_case():
    assert set(IMAGE_CASES) == {kernel.name for kernel in KERNELS}
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
    dims = IMAGE_CASES[kernel.name][0]
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
    defines = IMAGE_CASES[kernel.name][2]
    with built_at_once(kernel.name, [(variant, precision, defines) for variant, precision, _ in launches]):
        for variant, precision, local in launches:
            actual = run(kernel.name, variant, local, precision)
            within = 2e-6 if precision == Precision.FP32 else TOLERANCE[precision] * np.abs(expected).max()
            told = f"{variant.name}, {precision.name}, local {local}"
            np.testing.assert_allclose(actual, expected, rtol=0, atol=within, err_msg=told)


@NAMES
def test_defaults_are_variants_and_their_local_sizes_legal(name):
    kernel, (dims, _, _) = TABLE[name], IMAGE_CASES[name]
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
    kernel, (dims, _, _) = TABLE[name], IMAGE_CASES[name]
    tiny = dataclasses.replace(TARGET, image2d_max_width=1, image2d_max_height=1)
    assert "the device's limit is 1 x 1" in kernel.fits(dims, kernel.variants[0], tiny)
