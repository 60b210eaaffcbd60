"""The demonstration: its nights begin anew each time, and a tuning on a GPU that is played is told to be a model's."""

from pathlib import Path

import pytest

from farm.config import deployment
from farm.jobs.demo import job
from farm.jobs.demo.job import Demo, played_tunings, shown_in_words
from farm.jobs.demo.nights import remove_store
from farm.jobs.fleet.progress import SILENT
from farm.rows.status import Status
from farm.store import Store
from farm.store.address import parse_address
from farm.store.bundle_archive import BundleArchive, folder_of
from farm.tables.tune import tune_table
from runtime.errors import ConfigError
from tests.farm.jobs.test_execution import SMALL
from tests.farm.played_tuning import PlayedTuning
from tests.farm.store.bundles import left


@pytest.mark.slow
@pytest.mark.opencl
def test_a_tuning_on_a_played_gpu_says_that_it_was(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folder / "small.yml").write_text(SMALL)
    PlayedTuning(monkeypatch, trial_s=0.1)
    told: list[str] = []
    (row,) = played_tunings([deployment.load(own_folder / "small.yml")], SILENT, 0.0, told.append)
    assert row.status == Status.OK and row.launches_tuned > 0 and row.default_ms, row.reason
    assert told == ["tuning on a played mali-g72: its times are a model's, of no phone"]
    demo = Demo([], [], [row])
    assert tune_table(demo.tunings).rows[0][1] == "played_phone (played)"
    assert "played: Mali-G72 is a model, no such device took these times" in shown_in_words(demo)[-1]


def test_without_a_driver_to_stand_before_the_demonstration_goes_on(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConfigError("there is no PoCL")

    monkeypatch.setattr(job, "emulated_phone_unit", refuse)
    told: list[str] = []
    assert list(played_tunings([], SILENT, 0.0, told.append)) == []
    assert told[-1] == "no GPU is played here: there is no PoCL"


def test_a_store_is_removed_with_its_bundles_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "emulated_farm.db"
    other = tmp_path / "farm.db"
    other.write_bytes(b"kept")
    with Store.open(str(file)):
        archive = BundleArchive(folder_of(parse_address(str(file))))
        left(archive, 1, tmp_path / "made", farmrt=b"program")
    remove_store(file)
    remove_store(file)  # what is not there is no fault
    assert sorted(path.name for path in tmp_path.iterdir()) == ["farm.db", "made"]
    with Store.open(str(file)):
        assert archive.summary().bundles == 0
