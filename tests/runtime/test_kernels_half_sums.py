"""Sums of products in half arithmetic: right in each kernel and variant, and exact however long they are.

Not every machine has a driver with such arithmetic. So floats stand for halves (half_shim.py); where a driver has the
extension, as Intel's on CPUs with AVX512-FP16, the tests of every kernel run in half too.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from runtime.kernels import table
from runtime.kernels.source import build_options
from runtime.kernels.spec import Kernel, Variant, variant
from runtime.semantics.unary import Unary
from runtime.target import Target
from runtime.types import Precision
from tests import opencl
from tests.runtime import buffer_launch, half_shim, image_launch
from tests.runtime import test_kernels_image_table as image_cases
from tests.runtime.families import CASES, IMAGE_CASES
from tests.runtime.kernel_cases import fused

pytestmark = pytest.mark.opencl

HALF = Target(soc="host", abi="x86_64", precision=Precision.FP16, fp16=True)
SUMMING = ("conv2d", "conv1x1", "depthwise", "fully_connected", "winograd_gemm")
LENGTH = 2048
# What a sum of so many products loses: in runs less than a few of the last bits of a half, which are 5e-4 each.
EXACT_TO, WHOLE_LOSES = 1e-3, 3e-3


def run_variants(kernel: Kernel) -> list[Variant]:
    """Every variant that only half arithmetic has, and the default one."""
    return [kernel.variants[0], *(chosen for chosen in kernel.variants if chosen.get("RUN"))]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", table.BUFFER_KERNELS, ids=lambda kernel: kernel.name)
def test_the_code_for_half_is_right_on_buffers(kernel: Any) -> None:
    device = opencl.default_device()
    launches = [(fitting_case(kernel, chosen), chosen) for chosen in run_variants(kernel)]
    options = [build_options(chosen, Precision.FP32, case.defines) for case, chosen in launches]
    built = half_shim.entries(buffer_launch.context_of(device), kernel, options)
    for case, chosen in launches:
        actual, expected = buffer_launch.launch(case, chosen, Precision.FP32, None, device, built=built)
        np.testing.assert_allclose(actual, expected, atol=5e-5, rtol=5e-5, err_msg=chosen.name)


def fitting_case(kernel: Any, chosen: Variant) -> buffer_launch.Case:
    cases = (case for case in CASES.values() if case.kernel is kernel)
    return next(case for case in cases if not kernel.fits(case.dims, chosen, HALF))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", table.IMAGE_KERNELS, ids=lambda kernel: kernel.name)
def test_the_code_for_half_is_right_on_images(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, defines = image_cases.run(kernel.name), IMAGE_CASES[kernel.name][2]
    options = [build_options(chosen, Precision.FP32, defines) for chosen in run_variants(kernel)]
    built = half_shim.entries(image_launch.device()[0], kernel, options)
    monkeypatch.setattr(image_launch, "entry", lambda name, *build: built(build_options(*build)))
    monkeypatch.setattr(image_launch, "TARGET", HALF)
    for chosen in run_variants(kernel):
        half = image_cases.run(kernel.name, chosen)
        np.testing.assert_allclose(half, expected, atol=5e-5, rtol=5e-5, err_msg=chosen.name)


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has all launches built with floats for halves, and multiply-adds that round to 11 bits."""

    def of_buffers(device: Any, kernel: Kernel, options: str) -> Any:
        return half_shim.build(buffer_launch.context_of(device), half_shim.rounded(kernel), options)

    def of_images(name: str, chosen: Variant, precision: Precision, defines: Any) -> Any:
        options = build_options(chosen, precision, dict(defines))
        return half_shim.build(image_launch.device()[0], half_shim.rounded(image_launch.TABLE[name]), options)

    monkeypatch.setattr(buffer_launch, "program", of_buffers)
    monkeypatch.setattr(image_launch, "program", of_images)
    monkeypatch.setattr(image_launch, "TARGET", HALF)


def sum_on_buffers(run: Mapping[str, int]) -> float:
    """Error of sums of LENGTH products in a 1x1 convolution, as a share of the greatest."""
    case = fused("conv1x1", {"pixels": 3, "in_c": LENGTH, "out_c": 4}, Unary.CLAMP)
    case = dataclasses.replace(case, floats={"act_a": -1e9, "act_b": 1e9})
    chosen = variant(BLOCK=4, VECTOR=4, PIXELS=1, FMA=0, **run)
    actual, expected = buffer_launch.launch(case, chosen, Precision.FP32, None, opencl.default_device())
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def sum_on_images(run: Mapping[str, int]) -> float:
    dims = {"rows": 1, "width": 3, "in_c": LENGTH, "out_c": 4}
    x, w = image_launch.random(1, 1, LENGTH, 1, 3), image_launch.random(2, 4, LENGTH, 1, 1)
    tensors = {"x": x, "w": w, "b": np.zeros(4, np.float32)}
    chosen = variant(BLOCKS=1, PIXELS=4, FMA=0, **run)
    defines = {"ACTIVATION": 0, "RESIDUAL": 0}
    actual = image_launch.launch("conv1x1", tensors, dims, image_launch.UNBOUNDED, defines, chosen)
    expected = np.einsum("oc,cw->ow", w[:, :, 0, 0].astype(float), x[0, :, 0].astype(float))
    return float(np.abs(actual[0, :, 0] - expected).max() / np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.usefixtures("rounded")
@pytest.mark.parametrize("error_of", [sum_on_buffers, sum_on_images])
def test_a_long_sum_in_runs_keeps_its_last_bits(error_of: Any) -> None:
    assert error_of({}) < EXACT_TO
    assert error_of({"RUN": 8}) < EXACT_TO
    assert error_of({"RUN": 2 * LENGTH}) > WHOLE_LOSES


def test_only_half_arithmetic_has_variants_of_runs() -> None:
    single = Target(soc="host", abi="x86_64")
    for case in CASES.values():
        for chosen in case.kernel.variants:
            if chosen.get("RUN"):
                assert "half arithmetic" in case.kernel.fits(case.dims, chosen, single)
    with_runs = {(kernel.memory, kernel.name) for kernel in table.KERNELS if run_variants(kernel)[1:]}
    assert with_runs >= {("buffer", "conv1x1"), ("buffer", "conv2d"), ("image", "conv1x1"), ("image", "conv2d")}
