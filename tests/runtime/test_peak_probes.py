"""The probes of a device's peaks compute what they are compared with, and their times make peaks that make sense."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from runtime.peaks import NOT_MEASURED, PeakFigure
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.selection.peak_probes import PeakProbe, measured_peaks, peaks_from, probe_plan, probes, wanted
from runtime.target import Target
from runtime.types import Precision
from tests.opencl import default_device

GPU = Target("soc", "abi", gpu_family="mali", compute_units=3, fp16=True)
FIGURES = {
    PeakFigure.MACS: 5e7,
    PeakFigure.HALF_MACS: 8e7,
    PeakFigure.BUFFER_BYTES: 3e6,
    PeakFigure.IMAGE_BYTES: 4e6,
    PeakFigure.LAUNCH_MS: 0.02,
}


def times(known: list[PeakProbe], slower: float = 1.0) -> dict[str, float]:
    """What the probes take on a device of these peaks."""
    launch_ms = FIGURES[PeakFigure.LAUNCH_MS]
    working = {each.key: 0.0 if each.figure == "launch_ms" else each.work / FIGURES[each.figure] for each in known}
    return {key: slower * (launch_ms + ms) for key, ms in working.items()}


@pytest.mark.slow
@pytest.mark.opencl
def test_each_probe_writes_what_it_is_compared_with() -> None:
    device = default_device()
    target = target_of_device(device)
    small = [each for each in probes(target) if not each.is_large]
    assert {each.figure for each in small} >= set(PeakFigure) - {PeakFigure.HALF_MACS}
    for _, group in itertools.groupby(small, key=lambda each: each.together):
        together = list(group)
        plan = probe_plan(target, together)
        found = Executor(encode_plan(plan.plan), plan.plan.data, device).run(plan.inputs)
        assert [each.key for each in plan.launches] == [each.key for each in together]
        for expected, probe in zip(plan.plan.expectations, together, strict=True):
            wanted_values = np.frombuffer(bytes(plan.plan.data), np.float32, expected.count, expected.data_offset)
            np.testing.assert_array_equal(found[plan.plan.tensors[expected.tensor].name][0], wanted_values)
            assert plan.plan.steps[expected.step].kernel is probe.launch.kernel


@pytest.mark.parametrize("slower", [1.0, 3000.0])
def test_peaks_are_what_the_times_of_the_probes_show(slower: float) -> None:
    found = measured_peaks(GPU, times(probes(GPU), slower)).figures
    assert set(found) == set(FIGURES)
    for figure, true in FIGURES.items():
        expected = true * slower if figure == PeakFigure.LAUNCH_MS else true / slower
        assert found[figure] == pytest.approx(expected, rel=1e-6)


def test_the_faster_of_small_and_large_counts() -> None:
    known = probes(GPU)
    found = times(known)
    small, large = (each for each in known if each.figure == PeakFigure.BUFFER_BYTES)
    found[small.key] = 0.02 + small.work / 9e6
    assert measured_peaks(GPU, found).figures[PeakFigure.BUFFER_BYTES] == pytest.approx(9e6)
    assert large.work == 32 * small.work


def test_a_large_probe_is_for_devices_that_run_the_small_one_in_a_moment() -> None:
    known = probes(GPU)
    quick, slow = times(known), times(known, 3000.0)
    assert all(wanted(each, known, slow) != each.is_large for each in known)
    assert all(wanted(each, known, quick) for each in known if "macs" in each.figure)
    assert not any(wanted(each, known, {}) for each in known if each.is_large), "nothing is known yet"


@pytest.mark.parametrize("nonsense_ms", [math.inf, 0.0, 1e-12, 1e9])
def test_times_that_make_no_sense_show_nothing(nonsense_ms: float) -> None:
    known = probes(GPU)
    assert peaks_from(known, dict.fromkeys((each.key for each in known), nonsense_ms)) == NOT_MEASURED
    assert peaks_from(known, {}) == NOT_MEASURED


def test_probes_that_take_hardly_longer_than_any_launch_show_nothing() -> None:
    known = probes(GPU)
    assert set(peaks_from(known, dict.fromkeys((each.key for each in known), 0.02)).figures) == {PeakFigure.LAUNCH_MS}


def test_a_target_has_the_probes_that_it_can_run() -> None:
    def figures(**more: object) -> set[PeakFigure]:
        return {each.figure for each in probes(dataclasses.replace(GPU, **more))}  # type: ignore[arg-type]

    assert figures() == set(PeakFigure)
    assert set(PeakFigure) - figures(image2d_max_width=0) == {PeakFigure.IMAGE_BYTES}
    assert set(PeakFigure) - figures(fp16=False) == {PeakFigure.HALF_MACS}
    narrow = [each for each in probes(dataclasses.replace(GPU, image2d_max_width=512)) if each.figure == "image_bytes"]
    assert [each.is_large for each in narrow] == [False], "the large one does not fit"


def test_keys_do_not_depend_on_what_a_model_asks_of_a_target() -> None:
    keys = [each.key for each in probes(GPU)]
    for other in ({"precision": Precision.FP16}, {"memory": "image"}, {"memory": "cpu"}, {"allow_cpu": True}):
        assert [each.key for each in probes(dataclasses.replace(GPU, **other))] == keys  # type: ignore[arg-type]
