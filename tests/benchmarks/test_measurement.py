"""A small model is tuned and measured on a real driver; a driver that is missing becomes a reason."""

import os
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import benchmarks.cpu as cpu_benchmark
from benchmarks.busy import Beside, BusyProcesses, slowdowns
from benchmarks.engines import Reading
from benchmarks.figures import ONNX_RUNTIME
from benchmarks.interleaving import MOST_ROUNDS, Failures, measure_interleaved
from benchmarks.machine import busy_ticks, machine
from benchmarks.measurement import DEFAULT, TUNED, Options, measure
from benchmarks.networks import Network, light_network, zoo_names, zoo_networks
from benchmarks.scratch import POCL_CACHE, scratch
from farm.farmrt.drivers import Driver
from farm.rows.status import Status
from runtime import zoo
from runtime.errors import DeviceLostError
from runtime.statistics.ratios import MINIMUM_ROUNDS
from tests import opencl
from tests.farm.model.tiny_model import tiny_model
from tests.farm.played_tuning import PlayedTuning


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Network]:
    onnx.save(tiny_model(1), tmp_path / "tiny.onnx")
    with light_network("tiny", tmp_path / "tiny.onnx") as network:
        yield network


@pytest.mark.slow
@pytest.mark.opencl
def test_a_model_is_tuned_and_measured_in_turns(small: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    PlayedTuning(monkeypatch, trial_s=5.0)
    said: list[str] = []
    run = measure(small, opencl.WORKING[0], Options(MINIMUM_ROUNDS, limit_s=1.0, budget_s=30.0), said.append)
    assert not run.failures
    assert [each.name for each in run.entrants] == [ONNX_RUNTIME, DEFAULT, TUNED]
    for each in run.entrants:
        assert each.status == Status.OK and each.latency_ms and each.to_onnxruntime
    assert run.tunings[0].status == Status.OK and run.tunings[0].launches > 0
    assert run.cold_start and run.cold_start.tuned.built > 0 and run.cold_start.compiled.built == 0
    assert said == ["tune", "in turns", "from cold"]


@pytest.mark.slow
def test_a_missing_driver_becomes_a_reason_beside_the_other_figures(small: Network) -> None:
    nowhere = Driver(Path("/nonexistent/libOpenCL.so"), "system", "none")
    run = measure(small, nowhere, Options(MINIMUM_ROUNDS, limit_s=1.0, level=None), lambda text: None)
    assert [each.name for each in run.entrants] == [ONNX_RUNTIME]
    assert len(run.failures) == 1 and run.failures[0].startswith("default: ")
    assert "/nonexistent/libOpenCL.so" in run.failures[0]


class Processes(BusyProcesses):
    """No processes, but how many are to go on."""

    def __init__(self) -> None:
        self.going_on = 0

    def go_on(self, count: int) -> None:
        self.going_on = count


class Slowed:
    """An engine whose rounds take so many milliseconds more for each busy process."""

    def __init__(self, name: str, more_ms: float, processes: Processes) -> None:
        self.name, self._more_ms, self._processes = name, more_ms, processes

    def turn(self, rounds: int, warmup: int) -> list[float]:
        return [10.0 + self._more_ms * self._processes.going_on] * rounds


def test_slow_downs_are_over_the_same_engine_and_beside_the_references() -> None:
    processes = Processes()
    engines = [Slowed("reference", 10.0, processes), Slowed("cpu", 20.0, processes)]
    lanes = [Beside(engine, processes, busy) for engine in engines for busy in (0, 1, 2)]
    measured = measure_interleaved(lanes, MINIMUM_ROUNDS, 1e9)
    keys = [(lane.name, lane.busy) for lane in lanes]
    *_, none, one, two = slowdowns("net", 2, dict(zip(keys, measured, strict=True)))
    assert (none.mean_ms, none.slowdown) == (10.0, None)
    assert one.slowdown and one.slowdown.value == pytest.approx(3.0)
    assert two.beside_onnxruntime and two.beside_onnxruntime.value == pytest.approx(5.0 / 3.0)
    assert processes.going_on == 0


class Steady:
    """A contender whose rounds all take the same time; it notes in a log how much it was asked for."""

    def __init__(self, name: str, round_ms: float, log: list[tuple[str, int, int]]) -> None:
        self.name, self._round_ms, self._log = name, round_ms, log

    def turn(self, rounds: int, warmup: int) -> list[float]:
        self._log.append((self.name, rounds, warmup))
        return [self._round_ms] * rounds


class Dying(Steady):
    """A contender that dies at its third call."""

    def turn(self, rounds: int, warmup: int) -> list[float]:
        times = super().turn(rounds, warmup)
        if sum(name == self.name for name, _, _ in self._log) == 3:
            raise DeviceLostError("farmrt: ended with exit status 139")
        return times


def test_each_turn_begins_with_another_contender() -> None:
    log: list[tuple[str, int, int]] = []
    measure_interleaved([Steady(name, 60.0, log) for name in "ABC"], turns=3, limit_s=1e9)
    assert "".join(name for name, _, _ in log) == "ABC" + "ABC" + "BCA" + "CAB"


def test_turns_of_fast_contenders_have_more_rounds_and_slow_rounds_need_no_warm_up() -> None:
    log: list[tuple[str, int, int]] = []
    lanes = measure_interleaved([Steady(str(ms), ms, log) for ms in (1.0, 12.0, 500.0)], turns=1, limit_s=1e9)
    assert [len(lane.turns[0]) for lane in lanes] == [MOST_ROUNDS, 5, 1]
    assert [warmup for _, _, warmup in log[3:]] == [1, 1, 0]


def test_the_others_go_on_when_a_contender_dies() -> None:
    log: list[tuple[str, int, int]] = []
    good, bad = measure_interleaved([Steady("good", 30.0, log), Dying("bad", 30.0, log)], turns=8, limit_s=1e9)
    assert len(good.turns) == 8 and not good.reason
    assert len(bad.turns) == 1
    assert bad.reason == "bad: farmrt: ended with exit status 139"


def test_the_time_limit_leaves_enough_turns_for_an_interval() -> None:
    lanes = measure_interleaved([Steady("A", 30.0, [])], turns=50, limit_s=0.0, clock=iter(range(1000)).__next__)
    assert len(lanes[0].turns) == MINIMUM_ROUNDS


def test_an_unforeseen_error_is_kept_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    failures = Failures()
    with failures.recorded("tune"):
        raise KeyError("launch")
    assert failures.lines == ["tune: KeyError: 'launch'"]
    assert "Traceback" in capsys.readouterr().err


STAT = "cpu  100 20 30 5000 400 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_the_machine_is_described() -> None:
    found = machine()
    assert found.cores >= 1 and found.memory_bytes > 2**28 and found.cpu


def test_waiting_and_guests_are_not_counted_as_work() -> None:
    assert busy_ticks(STAT) == 100 + 20 + 30 + 6 + 7 + 8


def test_every_network_of_the_zoo_has_a_deployment_file() -> None:
    assert sorted(zoo_names()) == sorted(zoo.names())


def test_winograd_has_a_library_of_its_own() -> None:
    with zoo_networks(["resnet50"]) as (network,):
        plain, tiled = network.deployment(), network.deployment(4)
    assert (plain.library_name, plain.models["resnet50"].winograd) == ("resnet50", "default")
    assert (tiled.library_name, tiled.models["resnet50"].winograd) == ("resnet50_winograd4", 4)


def test_a_network_of_another_size_has_its_shapes() -> None:
    with zoo_networks(["llama_small_decode?size=8&width=0.1"]) as (network,):
        (model,) = network.deployment().models.values()
    assert [each.shape for each in model.subgraph.inputs[:2]] == [(1, 1), (1, 8, 16)]


def test_a_transformer_takes_a_batch() -> None:
    with zoo_networks(["llama_small_decode?size=8&width=0.1"], batch=3) as (network,):
        (model,) = network.deployment().models.values()
    assert [each.shape for each in model.subgraph.inputs[:2]] == [(3, 1), (3, 8, 16)]


def test_a_round_reads_weights_and_inputs_but_no_table_of_words() -> None:
    options = {"width": 0.1, "size": 8, "classes": 10}
    model, channels, cached = zoo.build("llama_small_decode", **options), 64, 16 * 8 * 16
    wanted = 4 * (zoo.describe("llama_small_decode", **options).parameters - 10 * channels + cached)
    assert wanted < cpu_benchmark.bytes_read(model) < 1.01 * wanted


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_read_at_some_speed(threads: int) -> None:
    times = Reading(1 << 20, threads).turn(3, 1)
    assert len(times) == 3 and min(times) > 0


@pytest.mark.slow
def test_a_network_of_images_takes_a_batch() -> None:
    with zoo_networks(["squeezenet_v11?size=64"], batch=8) as (network,):
        (model,) = network.deployment().models.values()
    assert [each.shape for each in model.subgraph.inputs] == [(8, 3, 64, 64)]
    assert [each.shape for each in model.subgraph.outputs] == [(8, 1000)]


@pytest.mark.slow
def test_the_onnx_package_s_networks_get_deployment_files() -> None:
    with light_network("squeezenet", zoo.light_models()["squeezenet"]) as network:
        settings = network.deployment().models["squeezenet"]
        assert network.model_file().is_file()
    assert [each.shape for each in settings.subgraph.inputs] == [(1, 3, 224, 224)]


def test_scratch_leaves_no_trace() -> None:
    before = (Path.cwd(), os.environ.get(POCL_CACHE))
    with scratch() as folder:
        assert Path.cwd() == folder.resolve()
        assert os.environ[POCL_CACHE].startswith(str(folder))
        assert not list(folder.glob("build/*/opencl"))
    assert (Path.cwd(), os.environ.get(POCL_CACHE)) == before
    assert not folder.exists()
