"""Measured peaks take the place of those of the family; no launch beats them, and the model is held against times."""

import dataclasses
import itertools
import math
import random
from pathlib import Path

import numpy as np
import pytest

from farm.emulation import played_gpu
from farm.jobs.choices.costs import KnownCosts
from runtime import zoo
from runtime.convert import convert
from runtime.lowering.launch import Launch
from runtime.lowering.options import Options
from runtime.peaks import NOT_MEASURED, MeasuredPeaks, PeakFigure, peaks_of
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.selection.calibration import (
    ENOUGH,
    Bound,
    ModelledKind,
    ScaledCosts,
    by_key,
    group_of,
    kind_of,
    model_scale,
    model_scales,
    times_of_least,
    with_beaten,
)
from runtime.selection.costs import least_ms, modelled_costs
from runtime.selection.listing import find_candidates
from runtime.selection.peak_probes import PeakProbe, measured_peaks, peaks_from, probe_plan, probes, wanted
from runtime.target import Target, gpu_family
from runtime.types import EVERY_ALGORITHM, Precision
from tests.opencl import default_device
from tests.runtime.format_networks import reflected_middle
from tests.runtime.selection_graphs import GPU, GPU_AND_CPU

MEASURED = MeasuredPeaks(
    {
        PeakFigure.MACS: 5e7,
        PeakFigure.HALF_MACS: 7e7,
        PeakFigure.BUFFER_BYTES: 3e6,
        PeakFigure.IMAGE_BYTES: 4e6,
        PeakFigure.LAUNCH_MS: 0.02,
    }
)


def launches() -> dict[str, Launch]:
    graph, _ = convert(reflected_middle(56))
    return by_key(find_candidates(graph, GPU_AND_CPU, Options(algorithms=EVERY_ALGORITHM)).launches())


def test_how_much_longer_bytes_take_through_images_is_known_where_both_were_measured() -> None:
    assert MEASURED.image_slowdown == 0.75
    assert MEASURED.without(PeakFigure.IMAGE_BYTES).image_slowdown == 1.0


def test_what_was_measured_counts_and_the_rest_is_typical_of_the_family() -> None:
    typical, some = peaks_of(GPU), peaks_of(GPU, MeasuredPeaks({PeakFigure.MACS: 5e7}))
    assert some == dataclasses.replace(typical, macs=5e7)
    known = peaks_of(GPU, MEASURED)
    assert (known.macs, known.buffer_bytes, known.image_bytes, known.launch_ms) == (5e7, 3e6, 4e6, 0.02)
    half = dataclasses.replace(GPU, precision=Precision.FP16)
    assert peaks_of(half, MEASURED).macs == 7e7
    assert peaks_of(half, MEASURED.without(PeakFigure.HALF_MACS)).macs == 1e8, "half is twice as fast, typically"
    stored = dataclasses.replace(GPU, precision=Precision.FP16_STORAGE)
    assert peaks_of(stored, MEASURED).macs == 5e7, "its arithmetic is in float"


def facts_of(profile: str) -> dict[str, str]:
    text = (Path(played_gpu.__file__).parent / "gpu" / "profiles" / f"{profile}.gpu").read_text()
    return dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)


@pytest.mark.parametrize("profile", played_gpu.profile_names())
def test_what_is_typical_of_a_generation_is_near_each_gpus_facts(profile: str) -> None:
    """Of the multiply-adds so many as kernels reach, of the memory's bytes three fifths."""
    facts = facts_of(profile)
    name, version, units = facts["name"], facts["version"], int(facts["compute_units"])
    family = gpu_family(name, facts["platform_version"], device_version=version)
    peaks = peaks_of(Target("soc", "abi", name, opencl_version=version, gpu_family=family, compute_units=units))
    reached = min(0.6 * float(facts["macs_per_clock"]), 85) * units * float(facts["clock_mhz"]) * 1e3
    moved = 0.6 * float(facts["memory_gb_s"]) * 1e6
    assert peaks.macs == pytest.approx(reached, rel=0.25)
    assert 0.6 < peaks.image_bytes / moved < 1.8


def test_an_unknown_number_is_as_its_family() -> None:
    """Nor is the version of OpenCL taken for one."""
    told = [
        Target("s", "a", "QUALCOMM Adreno(TM)", opencl_version=f"OpenCL 3.0{more}", gpu_family=family)
        for more, family in (("", "adreno-5xx"), (" Adreno(TM) 530", "adreno-5xx"), ("", "adreno"))
    ]
    assert peaks_of(told[0]) == peaks_of(told[1]) != peaks_of(told[2])


def test_the_least_time_is_known_where_every_peak_is_that_a_launch_depends_on() -> None:
    without_images = MEASURED.without(PeakFigure.IMAGE_BYTES)
    for launch in launches().values():
        kind, known, some = kind_of(launch), least_ms(launch, MEASURED), least_ms(launch, without_images)
        assert math.isinf(least_ms(launch, NOT_MEASURED))
        assert math.isinf(known) == (kind == ModelledKind.CPU)
        assert math.isinf(some) == (kind != ModelledKind.BUFFER)


def test_the_bound_is_never_above_what_a_launch_takes_if_the_peaks_are_true() -> None:
    """A device whose launches take what its peaks allow, and up to 300 times as long."""
    chance, every, model = random.Random(3), launches(), modelled_costs(GPU_AND_CPU, MEASURED)
    gpu = {key: launch for key, launch in every.items() if kind_of(launch) != ModelledKind.CPU}
    truth = {key: least_ms(launch, MEASURED) * 300 ** chance.random() for key, launch in gpu.items()}
    for count in (0, 1, 8, len(truth)):
        timed = dict(chance.sample(sorted(truth.items()), count))
        calibrated = ScaledCosts(model, model_scales(every, timed, model))
        bound = Bound(ScaledCosts(calibrated, dict.fromkeys(ModelledKind, 1 / 3)), MEASURED)
        assert all(bound.milliseconds(launch) <= truth[key] for key, launch in gpu.items())


def test_what_is_far_from_the_peaks_wherever_it_was_timed_is_bounded_by_that() -> None:
    """On images a device takes 30 to 60 times what its peaks allow, as a driver for CPUs does."""
    chance, size = random.Random(4), 64
    graph, _ = convert(zoo.build("squeezenet_v11", width=0.5, size=size), {"input": (1, 3, size, size)})
    every = by_key(find_candidates(graph, GPU_AND_CPU, Options()).launches())
    gpu = {key: launch for key, launch in every.items() if kind_of(launch) != ModelledKind.CPU}
    factors = {
        key: (30.0 if kind_of(launch) == ModelledKind.IMAGE else 1.0) * 2 ** chance.random()
        for key, launch in gpu.items()
    }
    truth = {key: least_ms(launch, MEASURED) * factors[key] for key, launch in gpu.items()}
    of_slow = [key for key, launch in gpu.items() if group_of(launch) == (ModelledKind.IMAGE, True)]
    few = {key: truth[key] for key in of_slow[: ENOUGH - 1]}
    assert times_of_least(every, few, MEASURED) == {}
    timed = {key: truth[key] for key in [*of_slow[:ENOUGH], *(gpu.keys() - set(of_slow))]}
    known = KnownCosts(GPU_AND_CPU, timed, peaks=MEASURED).calibrated(every)
    bound = known.bound(3.0)
    assert all(bound.milliseconds(launch) <= truth[key] for key, launch in gpu.items() if key not in timed)
    others = [key for key in of_slow if key not in timed]
    assert others and all(bound.milliseconds(gpu[key]) >= 4 * least_ms(gpu[key], MEASURED) for key in others)


@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_a_device_that_is_nothing_like_its_family_is_told_by_a_few_launches(factor: float) -> None:
    every, model = launches(), modelled_costs(GPU)
    gpu = sorted(key for key, launch in every.items() if kind_of(launch) == ModelledKind.BUFFER)
    for count, most_off in ((1, 3.01), (4, 1.75), (7, 1.53)):
        timed = {key: factor * model.milliseconds(every[key]) for key in gpu[:count]}
        scales = model_scales(every, timed, model)
        assert 1 / most_off < scales[ModelledKind.BUFFER] / factor < most_off
        assert scales[ModelledKind.IMAGE] == scales[ModelledKind.BUFFER], "of images nothing else is known"
        assert ModelledKind.CPU not in scales, "the CPU is another device"


def test_each_kind_has_its_own_factor_where_it_was_timed() -> None:
    every, model = launches(), modelled_costs(GPU_AND_CPU)
    factors = {ModelledKind.BUFFER: 40.0, ModelledKind.IMAGE: 900.0, ModelledKind.CPU: 0.02}
    timed = {key: factors[kind_of(launch)] * model.milliseconds(launch) for key, launch in every.items()}
    scales = model_scales(every, timed, model)
    assert set(scales) == set(factors)
    assert all(0.6 < scales[kind] / factor < 1.65 for kind, factor in factors.items())


def test_peaks_that_were_read_too_low_become_what_launches_show() -> None:
    """A device whose launches take what its peaks allow at least, and whose peaks read half of what they are."""
    every = {key: launch for key, launch in launches().items() if kind_of(launch) != ModelledKind.CPU}
    truth = {key: least_ms(launch, MEASURED) for key, launch in every.items()}
    slow = {
        figure: value * (2 if figure == PeakFigure.LAUNCH_MS else 0.5) for figure, value in MEASURED.figures.items()
    }
    found = with_beaten(MeasuredPeaks(slow), every, truth)
    assert all(least_ms(launch, found) <= truth[key] * (1 + 1e-9) for key, launch in every.items())
    assert found.figures[PeakFigure.HALF_MACS] == slow[PeakFigure.HALF_MACS], "no launch computes in half"
    assert with_beaten(MEASURED, every, truth) == with_beaten(MEASURED, every, {}) == MEASURED


def test_few_launches_that_may_differ_by_chance_change_nothing() -> None:
    assert model_scale([]) == model_scale([2.5]) == model_scale([0.5, 2.0]) == 1.0
    assert model_scale([2.5] * 100) == pytest.approx(2.5, rel=0.15)
    assert 1.0 < model_scale([2.5] * 6) < 2.5, "nearer to 1, the fewer there are"


def test_launches_of_no_time_do_not_count() -> None:
    every, model = launches(), modelled_costs(GPU)
    assert model_scales(every, dict.fromkeys(every, 0.0), model) == {}


PROBED_GPU = Target("soc", "abi", gpu_family="mali", compute_units=3, fp16=True)
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
    found = measured_peaks(PROBED_GPU, times(probes(PROBED_GPU), slower)).figures
    assert set(found) == set(FIGURES)
    for figure, true in FIGURES.items():
        expected = true * slower if figure == PeakFigure.LAUNCH_MS else true / slower
        assert found[figure] == pytest.approx(expected, rel=1e-6)


def test_the_faster_of_small_and_large_counts() -> None:
    known = probes(PROBED_GPU)
    found = times(known)
    small, large = (each for each in known if each.figure == PeakFigure.BUFFER_BYTES)
    found[small.key] = 0.02 + small.work / 9e6
    assert measured_peaks(PROBED_GPU, found).figures[PeakFigure.BUFFER_BYTES] == pytest.approx(9e6)
    assert large.work == 32 * small.work


def test_a_large_probe_is_for_devices_that_run_the_small_one_in_a_moment() -> None:
    known = probes(PROBED_GPU)
    quick, slow = times(known), times(known, 3000.0)
    assert all(wanted(each, known, slow) != each.is_large for each in known)
    assert all(wanted(each, known, quick) for each in known if "macs" in each.figure)
    assert not any(wanted(each, known, {}) for each in known if each.is_large), "nothing is known yet"


@pytest.mark.parametrize("nonsense_ms", [math.inf, 0.0, 1e-12, 1e9])
def test_times_that_make_no_sense_show_nothing(nonsense_ms: float) -> None:
    known = probes(PROBED_GPU)
    assert peaks_from(known, dict.fromkeys((each.key for each in known), nonsense_ms)) == NOT_MEASURED
    assert peaks_from(known, {}) == NOT_MEASURED


def test_probes_that_take_hardly_longer_than_any_launch_show_nothing() -> None:
    known = probes(PROBED_GPU)
    assert set(peaks_from(known, dict.fromkeys((each.key for each in known), 0.02)).figures) == {PeakFigure.LAUNCH_MS}


def test_a_target_has_the_probes_that_it_can_run() -> None:
    def figures(**more: object) -> set[PeakFigure]:
        return {each.figure for each in probes(dataclasses.replace(PROBED_GPU, **more))}  # type: ignore[arg-type]

    assert figures() == set(PeakFigure)
    assert set(PeakFigure) - figures(image2d_max_width=0) == {PeakFigure.IMAGE_BYTES}
    assert set(PeakFigure) - figures(fp16=False) == {PeakFigure.HALF_MACS}
    narrow = [
        each for each in probes(dataclasses.replace(PROBED_GPU, image2d_max_width=512)) if each.figure == "image_bytes"
    ]
    assert [each.is_large for each in narrow] == [False], "the large one does not fit"


def test_keys_do_not_depend_on_what_a_model_asks_of_a_target() -> None:
    keys = [each.key for each in probes(PROBED_GPU)]
    for other in ({"precision": Precision.FP16}, {"memory": "image"}, {"memory": "cpu"}, {"allow_cpu": True}):
        assert [each.key for each in probes(dataclasses.replace(PROBED_GPU, **other))] == keys  # type: ignore[arg-type]
