"""Whole jobs with kernels that a driver does not build, or that never end."""

import contextlib
import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from farm.config import deployment, inventory
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone
from farm.farmrt.drivers import Driver
from farm.jobs.fleet import kernel_trial
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import TestData, prepare
from farm.jobs.tune import trials
from farm.model import fetch
from farm.units import tried_kernels
from farm.workspace import Workspace, refused_file
from runtime.errors import ProcessKilledError
from runtime.kernels.source import program_source
from runtime.kernels.spec import Kernel
from runtime.plan import encode
from runtime.plan.artifacts import KernelSet, decode_kernels, encode_kernels
from tests import opencl
from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits, is_clean
from tests.farm.model.tiny_model import tiny_model, write_deployment

pytestmark = [pytest.mark.slow, pytest.mark.opencl]
ENDLESS = "volatile int still = 1; while (still) { }"


@pytest.fixture
def phone(emulated: EmulatedUnits) -> EmulatedPhone:
    return emulated.phone()


def hang(kernel: Kernel, text: str) -> str:
    """The convolution's variants of one pixel, which are nowhere the default, never end."""
    if kernel.name != "conv2d_planes":
        return text
    head, body, rest = text.rpartition("float act_a, float act_b)\n{\n")
    assert body
    return f"{head}{body}#if PIXELS == 1\n{ENDLESS}\n#endif\n{rest}"


@contextlib.contextmanager
def changed_source(change: Callable[[Kernel, str], str]) -> Iterator[None]:
    """Plans are written with other kernel sources."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "program_source", lambda kernel: change(kernel, program_source(kernel)))
        yield


def hung_candidates(journal: Path) -> list[str]:
    """In the order in which they were tried."""
    trials = [json.loads(line) for line in journal.read_text().splitlines() if '"hang"' in line]
    return [json.dumps([trial["kernel"], trial["key"], trial["variant"], trial["local"]]) for trial in trials]


def test_kernels_that_do_not_build_are_a_row_with_the_compilers_words(
    emulated: EmulatedUnits, phone: EmulatedPhone
) -> None:
    with changed_source(lambda _, text: f"{text}\n#error no such instruction here\n"):
        done = emulated.run()
    assert (done.status, done.row["status"]) == (1, "unsupported"), done
    assert "no such instruction here" in done.row["reason"]
    Path("build/units/mi8/kernels.json").unlink()  # a file of sources that differs does as much, which a patch does not
    again = emulated.run()
    assert (again.status, again.row["status"]) == (0, "ok"), again
    assert is_clean(phone)


def test_a_candidate_that_never_ends_costs_one_trial_and_is_not_tried_again(
    emulated: EmulatedUnits, phone: EmulatedPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "LEAST_TRIAL_DEADLINE_S", 2.0)
    journal = Path("build/tuning/sdm845.jsonl")
    with changed_source(hang):
        done = emulated.tune("--budget", "30")
        assert (done.status, done.row["status"]) == (0, "ok"), done
        assert hung_candidates(journal)
        again = emulated.tune()
    assert (again.status, again.row["status"]) == (0, "ok"), again
    hung = hung_candidates(journal)
    assert len(hung) == len(set(hung))
    assert is_clean(phone)


MUTATIONS = 12


@pytest.fixture
def folder(own_folder: Path) -> Path:
    write_deployment(own_folder)
    return own_folder


def compiled(folder: Path, library: str | None = None) -> KernelSet:
    """What the driver makes of the programs of tiny.yml."""
    source = deployment.load(folder / "tiny.yml")
    prepared = prepare(source, "tiny", fetch.Fetcher(source))
    with open_unit(inventory.HOST, library) as opened, TemporaryDirectory() as scratch:
        plan, plan_file = opened.planner.plan(prepared, "gpu", opened.planner.target(prepared, "gpu"))
        write_plan(plan, plan_file)
        opened.load(plan_file)
        opened.write_inputs(TestData(prepared, {}).inputs)
        opened.first_round()
        opened.session.command("save_kernels", file="saved.bin")
        opened.transport.pull("saved.bin", local := Path(scratch, "saved.bin"))
        (saved,) = decode_kernels(local.read_bytes(), "saved")
    return saved


def with_binaries(kernels: KernelSet, binaries: dict[str, bytes]) -> bytes:
    """A file with other binaries and a fresh checksum."""
    return encode_kernels([dataclasses.replace(kernels, binaries=binaries)])


def mutated(kernels: KernelSet, seed: int) -> bytes:
    """One binary is changed: a bit, eight bytes of its head, 64 bytes anywhere, or its length."""
    draw = random.Random(seed)
    binaries = dict(kernels.binaries)
    key = draw.choice(sorted(binaries))
    content = bytearray(binaries[key])
    match seed % 4:
        case 0:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        case 1:
            at = draw.randrange(min(600, len(content) - 8))
            content[at : at + 8] = draw.randbytes(8)
        case 2:
            at = draw.randrange(len(content) - 64)
            content[at : at + 64] = draw.randbytes(64)
        case _:
            content = content[: draw.randrange(len(content))]
    binaries[key] = bytes(content)
    return with_binaries(kernels, binaries)


def truncated(kernels: KernelSet) -> bytes:
    """Each binary ends early: no driver loads that, and PoCL's deserializer crashes."""
    return with_binaries(kernels, {key: binary[: len(binary) // 2] for key, binary in kernels.binaries.items()})


@pytest.fixture
def run_row(farm: CallFarm) -> Callable[..., dict[str, Any]]:
    """Runs `farm run tiny.yml`; the row, which is that of a run that went well."""

    def run(*arguments: str) -> dict[str, Any]:
        status, out, err = farm("run", "tiny.yml", "--round", "1", "--validate", "--json", *arguments)
        (row,) = json.loads(out)["rows"]
        assert (status, row["status"], row["reason"]) == (0, "ok", ""), err
        return row  # type: ignore[no-any-return]

    return run


@pytest.mark.parametrize("driver", opencl.every_driver())
def test_no_run_fails_because_of_damaged_kernels(
    folder: Path, run_row: Callable[..., dict[str, Any]], driver: Driver
) -> None:
    kernels = compiled(folder, str(driver.path))
    for seed in range(MUTATIONS):
        Path("some.bin").write_bytes(mutated(kernels, seed))
        row = run_row("--kernels", "some.bin", "--opencl", str(driver.path))
        loaded = row["kernels"]["loaded"] > 0 or "the driver refused" in row["kernels"]["reason"]
        assert loaded or "some.bin failed when it was tried" in row["kernels"]["reason"], (seed, row["kernels"])
        assert row["settings"]["kernels_file"] == "some.bin" and ("kernels" in row["hashes"]) == loaded


def test_a_bad_file_of_the_build_folder_is_put_aside(folder: Path, run_row: Callable[..., dict[str, Any]]) -> None:
    kernels_file = kernels_of_build_folder(folder)
    kernels_file.write_bytes(truncated(compiled(folder)))
    row = run_row()
    aside = refused_file(kernels_file)
    assert not kernels_file.exists() and aside.name in row["kernels"]["reason"]
    assert decode_kernels(aside.read_bytes(), "aside"), "whole, for whoever looks into it"
    assert run_row()["kernels"]["reason"] == ""


def kernels_of_build_folder(folder: Path) -> Path:
    with open_unit(inventory.HOST) as opened:
        path = Workspace("tinylib").kernels_file(opened.unit.abi, opened.device_model, opened.unit.soc)
    path.parent.mkdir(parents=True)
    return path


def test_kernels_that_compute_something_else_are_not_loaded(
    folder: Path, run_row: Callable[..., dict[str, Any]]
) -> None:
    kernels = compiled(folder)
    write_deployment(folder, tiny_model(op="Sigmoid"))
    other = compiled(folder)
    write_deployment(folder)
    mine, others = (set(each.binaries) - set(both.binaries) for each, both in ((kernels, other), (other, kernels)))
    assert len(mine) == len(others) == 1, "the activation is in the convolution's options alone"
    swapped = dict(kernels.binaries) | {mine.pop(): other.binaries[others.pop()]}
    Path("swapped.bin").write_bytes(with_binaries(kernels, swapped))
    row = run_row("--kernels", "swapped.bin")
    assert "output 'y' differs" in row["kernels"]["reason"] and row["kernels"]["loaded"] == 0


def test_kernels_are_tried_once(
    folder: Path, run_row: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = compiled(folder)
    Path("good.bin").write_bytes(with_binaries(kernels, dict(kernels.binaries)))
    Path("bad.bin").write_bytes(truncated(kernels))
    first = [run_row("--kernels", name)["kernels"] for name in ("good.bin", "bad.bin")]
    assert (first[0]["match"], first[0]["built"]) == ("exact", 0)

    def never(*_: object) -> str:
        raise AssertionError("tried again")

    monkeypatch.setattr(kernel_trial, "_tried", never)
    again = [run_row("--kernels", name)["kernels"] for name in ("good.bin", "bad.bin")]
    assert [kernels["reason"] for kernels in again] == [kernels["reason"] for kernels in first]


def test_a_unit_short_of_memory_does_not_blame_the_kernels(
    folder: Path, run_row: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on from source, and the file is tried again the next time."""
    kernels = compiled(folder)
    Path("good.bin").write_bytes(with_binaries(kernels, dict(kernels.binaries)))
    load = OpenUnit.load

    def killed(own: OpenUnit, plan: Path, tuned: Any = None, kernels: Any = None, *more: Any, **named: Any) -> Any:
        if kernels:
            raise ProcessKilledError("load: farmrt was killed")
        return load(own, plan, tuned, kernels, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(OpenUnit, "load", killed)
        assert "farmrt was killed" in run_row("--kernels", "good.bin")["kernels"]["reason"]
    assert run_row("--kernels", "good.bin")["kernels"]["match"] == "exact"


def test_what_was_tried_belongs_to_the_device(tmp_path: Path) -> None:
    unit = Unit(name="pixel", transport="adb", soc="sdm845", model="Pixel 3", abis=("arm64-v8a",), serial="1")
    tried_kernels.remember(unit, "key", "it crashed", tmp_path)
    assert tried_kernels.fault(unit, "key", tmp_path) == "it crashed"
    assert tried_kernels.fault(unit, "other", tmp_path) is None
    assert tried_kernels.fault(dataclasses.replace(unit, serial="2"), "key", tmp_path) is None
    (tmp_path / "pixel/kernels.json").write_text("[")
    assert tried_kernels.fault(unit, "key", tmp_path) is None


def test_old_trials_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried_kernels, "MAX_TRIALS", 2)
    for key in "abc":
        tried_kernels.remember(inventory.HOST, key, "", tmp_path)
    assert [tried_kernels.fault(inventory.HOST, key, tmp_path) for key in "abc"] == [None, "", ""]
