"""A unit's night as a file, and the bundles that it leaves on its host."""

import math
from pathlib import Path

import pytest

from farm.decision.duet_schedule import possible_runs, scheduled_against, suspected_duet
from farm.decision.judgement import Judgement, OnsetTest, Verdict
from farm.jobs.nightly.bundles import NightBundles
from farm.jobs.nightly.sent_night import ARCHIVE, NIGHT, SentNight, bundle_files, parse_note, take_bundles
from farm.jobs.nightly.unit import NightSettings
from farm.nightly import configuration
from farm.rows.duet import DuetPair, SoftwareVerdict
from farm.rows.packed_points import PackedPoints
from farm.rows.run_info import RunInfo
from farm.rows.series import Metric, SeriesKey, case_of
from farm.store.bundle_archive import BundleArchive
from tests.farm.decision.test_duet import nights
from tests.farm.jobs.nightly.kept_notes import KeptNotes
from tests.farm.rows.nightly_rows import nightly_case
from tests.farm.rows.test_series import packed
from tests.farm.store.bundles import left, manifest

BLOCKS = nightly_case().blocks
CASE, OTHER = case_of(nightly_case()), case_of(nightly_case(unit="other"))
PAIR = DuetPair(against=1, before=BLOCKS[0], tonight=BLOCKS[1])


def night(folder: Path, *manifests: object) -> NightSettings:
    (folder / "lab.yml").write_text("models: tiny.yml\n")
    history: dict[SeriesKey, PackedPoints] = {SeriesKey(case, Metric.LATENCY): packed() for case in (CASE, OTHER)}
    bundles = NightBundles(BundleArchive(folder / "here"), RunInfo(9, "lab", "", "2026"), {CASE: manifests})  # type: ignore[dict-item]
    nightly = configuration.load(folder / "lab.yml")
    return NightSettings(nightly, 9, 5, history, KeptNotes(), {CASE, OTHER}, 2, bundles)


def test_a_host_reads_what_was_written_and_tells_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, told = night(tmp_path, manifest(1, files={"plan": "0" * 64})), list[object]()
    monkeypatch.chdir(tmp_path)
    Path(NIGHT).parent.mkdir()
    SentNight.of(given, "u", {CASE: (BLOCKS[:2], [PAIR])}, "a1").write(Path(NIGHT))
    there = SentNight.read(Path(NIGHT)).settings(given.nightly, told.append)
    assert (there.run, there.seed, there.retries, list(there.done)) == (9, 5, 2, [CASE])
    (key,) = there.history
    first, second, third = there.history[key]
    assert key == SeriesKey(CASE, Metric.LATENCY) and [first, third] == [packed()[0], packed()[2]]
    assert math.isnan(second.runs[0]) and second.runs[1] == -math.inf
    assert there.bundles and given.bundles and there.bundles.info == given.bundles.info
    assert there.bundles.before(CASE) == [manifest(1, files={"plan": "0" * 64})]
    assert (there.notebook.blocks(CASE), there.notebook.pairs(CASE)) == (BLOCKS[:2], (PAIR,))
    there.notebook.note(CASE, BLOCKS[2])
    there.notebook.note_pair(CASE, PAIR)
    there.notebook.note(CASE, BLOCKS[3])
    notes = [parse_note(data) for data in told]
    assert [(note.attempt, note.case, note.number) for note in notes] == [("a1", CASE, number) for number in (2, 1, 3)]
    assert [note.measured for note in notes] == [BLOCKS[2], PAIR, BLOCKS[3]]


def test_bundles_come_to_their_archive_once(tmp_path: Path) -> None:
    """The plan is new; the weights are those of an earlier night, which the host was sent and gives nobody back."""
    here = BundleArchive(tmp_path / "here")
    before = left(here, 1, tmp_path / "made", plan=b"old", weights=b"weights")
    bundles = night(tmp_path, before).bundles
    assert bundles and bundle_files(bundles, CASE, tmp_path) == {
        f"{ARCHIVE}/blobs/{digest}": here.blob(digest) for digest in before.files.values()
    }
    folder = tmp_path / "received"
    there = left(BundleArchive(folder / ARCHIVE), 9, tmp_path / "made", plan=b"new", weights=b"weights")
    (folder / ARCHIVE / "blobs" / there.files["weights"]).unlink()
    for _ in range(2):
        take_bundles(bundles, folder)
        assert here.manifests("lab") == [before, there] and len(here.blobs()) == 3 and not here.problems()


def test_all_bundles_that_a_duet_may_need_are_sent() -> None:
    """Whatever tonight's judgement is, with a change long ago and a slowdown that nobody has mended."""
    pasts = [
        nights(20, against=12, verdict=SoftwareVerdict.SLOWER),
        [*nights(12, against=3, verdict=SoftwareVerdict.FASTER), *nights(20)[12:]],
        nights(3),
    ]
    for past in pasts:
        possible = possible_runs(past)
        assert scheduled_against(past) in {*possible, None}
        for onset in range(1, 25):
            changed = Judgement(Verdict.REGRESSION, "", nights=onset, looks=(OnsetTest(onset, 0, 0.1, 0.1, 5.0, 5.0),))
            for judgement in (changed, Judgement(Verdict.NEW, "")):
                plan = suspected_duet(past, judgement)
                assert plan is None or plan.against in possible
    assert possible_runs(pasts[1]) == set(range(12, 21)), "what was before the change is not needed"
