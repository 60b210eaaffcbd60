"""The check of stored tuned files, on this machine."""

import dataclasses
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm import artifacts, cli
from farm.config import deployment, inventory
from farm.emulation import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.jobs.compare.interleaved import Effort
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, TestData, prepare
from farm.jobs.tune.tuned_check import TunedCheck, check_tuned, verdict
from farm.model import fetch
from farm.rows.row import Throttling
from runtime.plan.artifacts import decode_tuned, encode_tuned
from runtime.statistics.ratios import Ratio
from tests.farm.model.tiny_model import write_deployment

LITTLE = Effort(processes=5, turns=1, turn_ms=1.0)


@dataclasses.dataclass(frozen=True)
class Stored:
    """A folder with tuned files, and a farmrt on the unit that they are for."""

    opened: OpenUnit
    prepared: Prepared
    data: TestData
    tuned_file: Path
    kernels_file: Path

    def check(self, **more: Any) -> TunedCheck:
        return check_tuned(self.opened, self.prepared, "gpu", self.data, effort=LITTLE, **more)

    def verdict(self) -> str:
        check = self.check()
        assert check.ratio is None and check.ending is None
        return check.verdict


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_deployment(folder)
        assert cli.call(["tune", "--soc", "host", "tiny.yml", "--budget", "0"]) == 0
        (tuned_file,) = Path("build").rglob("*_tuned_*.bin")
        (kernels_file,) = Path("build").rglob("*_compiled_*.bin")
        source = deployment.load(Path("tiny.yml"))
        prepared = prepare(source, "tiny", fetch.Fetcher(source))
        with open_unit(inventory.HOST) as opened:
            yield Stored(opened, prepared, TestData(prepared, {}), tuned_file, kernels_file)


@pytest.fixture
def stored(tuned: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """The same in a folder that the test may spoil."""
    shutil.copytree("build/tinylib", tmp_path / "build/tinylib")
    monkeypatch.chdir(tmp_path)
    return tuned


def rewrite(path: Path, content: bytes) -> None:
    """Writes a file together with its hash in the manifest."""
    manifest = artifacts.read_manifest(path.parent)
    digest = hashlib.sha256(content).hexdigest()
    record = manifest.files[path.name].model_copy(update={"sha256": digest})
    path.write_bytes(content)
    text = manifest.model_copy(update={"files": manifest.files | {path.name: record}}).model_dump_json()
    path.with_name(artifacts.MANIFEST_NAME).write_text(text)


@pytest.mark.slow
@pytest.mark.opencl
class TestOnThisMachine:
    def test_files_that_hold_every_default_gain_nothing_that_counts(self, stored: Stored) -> None:
        check = stored.check()
        assert check.ratio and 0 < check.ratio.low <= check.ratio.value <= check.ratio.high
        assert check.verdict.startswith(("no gain: time ", "better: ", "worse than the default by "))
        assert check.ending is None

    def test_no_files(self, stored: Stored) -> None:
        stored.tuned_file.unlink()
        assert stored.verdict() == "no tuned files"

    @pytest.mark.parametrize("which", ["tuned_file", "kernels_file"])
    def test_a_flipped_bit(self, stored: Stored, which: str) -> None:
        path = getattr(stored, which)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        assert stored.verdict().startswith(f"damaged: {path.name}: ")

    def test_a_whole_file_that_is_not_the_manifests(self, stored: Stored) -> None:
        (one,) = decode_tuned(stored.tuned_file.read_bytes(), "tuned")
        stored.tuned_file.write_bytes(encode_tuned([dataclasses.replace(one, device_model="another")]))
        assert stored.verdict() == f"damaged: {stored.tuned_file.name}: SHA-256 differs from the manifest's"

    def test_a_damaged_manifest(self, stored: Stored) -> None:
        stored.tuned_file.with_name(artifacts.MANIFEST_NAME).write_text("{")
        assert stored.verdict().startswith("damaged: ")

    def test_another_driver(self, stored: Stored) -> None:
        (one,) = decode_tuned(stored.tuned_file.read_bytes(), "tuned")
        other = dataclasses.replace(one, fingerprint=dataclasses.replace(one.fingerprint, driver="older"))
        rewrite(stored.tuned_file, encode_tuned([other]))
        found = stored.verdict()
        assert found.startswith("not valid for this driver: ") and "driver" in found
        assert found.endswith("; run farm tune --soc host")

    def test_a_wrong_result_is_one_of_the_row(self, stored: Stored) -> None:
        data = TestData(stored.prepared, {})
        data.__dict__["_reference"] = {name: value + 1.0 for name, value in stored.data.expected.items()}
        check = check_tuned(stored.opened, stored.prepared, "gpu", data, effort=LITTLE)
        assert check.ending and check.ending.status == "wrong_result"
        assert check.ending.reason.startswith("with the tuned files: y: ")
        assert check.ratio is None and check.verdict.startswith("wrong result")

    def test_a_throttled_unit_gives_no_figure(self, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
        throttled = Throttling(throttled="thermal status severe", repeats=2)
        monkeypatch.setattr(stored.opened, "cool", lambda measure, _rest: (measure(), throttled))
        assert stored.verdict() == "not measured: thermal status severe"

    def test_the_files_of_another_device_model_are_not_those_of_a_phone(self, stored: Stored) -> None:
        with emulated_phone_unit("mi8", PhoneSettings(soc="sdm845")) as unit, open_unit(unit) as opened:
            assert dataclasses.replace(stored, opened=opened).verdict() == "no tuned files"


def test_a_cpu_runtime_has_none() -> None:
    nothing: Any = None
    assert check_tuned(nothing, nothing, "cpu", nothing) == TunedCheck()


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(0.919, 0.898, 0.940), "better: 8.1 % faster (6.0 to 10.2)"),
        (Ratio(1.003, 0.988, 1.01), "no gain: time +0.3 % (-1.2 to +1.0)"),
        (Ratio(1.005, 1.001, 1.009), "no gain: time +0.5 % (+0.1 to +0.9)"),
        (Ratio(1.031, 1.02, 1.041), "worse than the default by 3.1 % (2.0 to 4.1)"),
    ],
)
def test_the_verdict_in_words(ratio: Ratio, text: str) -> None:
    assert verdict(ratio) == text
