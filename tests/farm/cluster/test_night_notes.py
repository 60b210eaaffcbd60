"""What hosts tell of a night while it runs: kept once, in order, and sent along when the night goes on elsewhere."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from farm.cluster.remote_nights import remote_nights
from farm.config import deployment
from farm.jobs.fleet import dispatch
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import SILENT
from farm.jobs.nightly.sent_night import SentNight
from farm.jobs.nightly.unit import NightSettings
from farm.nightly import configuration
from farm.rows.nightly import NightlyRow
from farm.rows.series import Case
from runtime.errors import ConfigError
from tests.farm.cluster.test_remote_rows import UNITS, Answer, Hosts, printed
from tests.farm.jobs.nightly.kept_notes import KeptNotes
from tests.farm.model.tiny_model import write_deployment
from tests.farm.rows.nightly_rows import nightly_case

FILE = """
models: tiny.yml
settings: {default: {tuned: mine.bin, kernels: none}, cold: {}}
notify_command: [notify]
repeats: 4
"""
BLOCKS = nightly_case().blocks


class NightHosts(Hosts):
    """Hosts that read the night that they are sent; what they tell when they are asked is up to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.nights: list[SentNight] = []
        self.configurations: list[dict[str, Any]] = []
        self.names: set[str] = set()

    def check_room(self, host: str) -> None:
        pass

    def send_files(self, host: str, files: Any) -> None:
        paths = [path for _, path in files]
        self.nights += [SentNight.read(path) for path in paths if path.suffix == ".gz"]
        read = [yaml.safe_load(path.read_text()) for path in paths if path.suffix == ".yml"]
        self.configurations += [data for data in read if "repeats" in data]

    def submit(self, host: str, unit: str, work: str, arguments: Any, files: Any, leaves: bool = False) -> Any:
        self.names |= set(files)
        return super().submit(host, unit, work, arguments, files, leaves)

    def tell(self, number: int, case: Case, attempt: str) -> None:
        data = {"attempt": attempt, "case": dataclasses.asdict(case), "number": number}
        value = {**data, "measured": BLOCKS[number].model_dump(mode="json")}
        self.handler({"event": "note", "unit": "mi8", "value": value})  # type: ignore[operator]


@pytest.fixture
def hosts(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> NightHosts:
    monkeypatch.setattr(dispatch, "POLL_S", 0.05)
    write_deployment(own_folder, runtime="gpu")
    (own_folder / "lab.yml").write_text(FILE)
    (own_folder / "mine.bin").write_bytes(b"tuned")
    return NightHosts()


def night(hosts: NightHosts, notes: KeptNotes, **options: Any) -> list[NightlyRow]:
    given = NightSettings(configuration.load(Path("lab.yml")), 7, 3, {}, notes)
    fleet = FleetOptions(**{"return_s": 0.2, **options})
    places = [(deployment.load(Path("tiny.yml")), UNITS[:1])]
    said = list[str]()
    return list(remote_nights(hosts, ("--wait", "9"), places, fleet, SILENT, said.append, given))  # type: ignore[arg-type]


def answer(**more: Any) -> Answer:
    rows = [nightly_case("tiny", unit="mi8", setting=setting, **more) for setting in ("default", "cold")]
    return {**printed(*(row.model_dump(mode="json") for row in rows)), "left": {}}


def test_blocks_are_kept_once_and_go_along_to_the_next_host(hosts: NightHosts) -> None:
    """The first host tells two blocks and a fourth, and dies; it tells another one when the second is at work."""
    notes = KeptNotes(BLOCKS[:1])

    def on_submit(_unit: str) -> None:
        attempt, (case, _, _) = hosts.nights[-1].attempt, hosts.nights[-1].notes[0]
        if len(hosts.nights) == 1:
            for number in (1, 2, 2, 4):
                hosts.tell(number, case, attempt)
            hosts.offered["mi8"] = "other"
        else:
            hosts.tell(3, case, hosts.nights[0].attempt)
            hosts.tell(3, case, attempt)
            hosts.tell(2, case, attempt)

    hosts.on_submit, hosts.answers = on_submit, {"mi8": [None, answer()]}
    rows = night(hosts, notes)
    assert [(row.unit, row.status) for row in rows] == [("mi8", "ok")] * 2
    assert notes.kept == [*BLOCKS[1:4]]
    assert [tuple(sent.notes[0][1]) for sent in hosts.nights] == [BLOCKS[:1], BLOCKS[:3]]
    assert hosts.asked[0] == ("mi8", "night", ("unit-night", "--wait", "9"))


def test_hosts_get_the_settings_and_their_files_and_nothing_of_what_only_the_client_does(hosts: NightHosts) -> None:
    hosts.answers = {"mi8": [answer()]}
    night(hosts, KeptNotes())
    (sent,) = hosts.configurations
    default = {"tuned": "settings/default/tuned/mine.bin", "kernels": "none"}
    assert sent == {"models": ["0/model.yml"], "repeats": "4", "settings": {"default": default, "cold": {}}}
    assert {"night/nightly.yml", "night/0/model.yml", "night/settings/default/tuned/mine.bin"} <= hosts.names
    assert all(not name.startswith("/") for name in hosts.names)


def test_a_unit_that_stays_away_has_rows_with_its_blocks(hosts: NightHosts) -> None:
    hosts.answers = {"mi8": [answer(status="device_lost", reason="gone")]}
    rows = night(hosts, KeptNotes(), retries=0)
    assert [(row.status, row.reason) for row in rows] == [("device_lost", "gone")] * 2
    hosts.offered.clear()
    rows = night(hosts, KeptNotes(BLOCKS[:3]), retries=0)
    assert {(row.setting, row.status, row.reason) for row in rows} == {
        (setting, "device_lost", "mi8: no host offers it") for setting in ("default", "cold")
    }
    assert all(row.blocks == BLOCKS[:3] and row.settings["rounds"] == 10 for row in rows)


def test_files_that_cannot_be_sent_are_one_line(hosts: NightHosts) -> None:
    Path("mine.bin").unlink()
    with pytest.raises(ConfigError, match=r"mine\.bin is not a file"):
        night(hosts, KeptNotes())
