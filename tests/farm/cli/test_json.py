"""`--json`: every command that has it prints one document of one form, whether it is done, fails, or is wrong."""

import contextlib
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from farm import cli
from farm.cli import demo, envelope, jobs, run, tune
from farm.cli.envelope import Document, kind_of
from farm.cluster.certificates import create_authority
from farm.cluster.queue import JobName, JobReport, KeptJob, TaskReport
from farm.config import deployment
from farm.config.inventory import HOST, Unit
from farm.jobs.demo.job import Demo
from farm.jobs.nightly.stored_night import load_night
from farm.jobs.run import RunOptions, run_job
from farm.store import Store
from farm.store.lines import new_run
from farm.transport import ssh
from farm.transport.ssh_known_hosts import HostKey
from farm.units import lookup
from runtime.errors import DeviceLostError, FarmError, NoUnitError, UnsupportedError
from tests.farm.conftest import CallFarm
from tests.farm.jobs.bisect.repositories import model_repository
from tests.farm.model.tiny_model import write_deployment
from tests.farm.rows.nightly_rows import nightly_case
from tests.farm.test_artifacts import publish

BOARD = Unit("pi", "ssh", "rk3399", "NanoPi", ())
TRUSTED = HostKey("pi.lan", "ssh-ed25519", "AAAA", Path("known_hosts"), "known")
COMMON = {"schema_version", "command", "status", "exit_status", "error", "rows"}
NIGHTLY = """name: lab
models: [tiny.yml]
units: [{device: host}]
"""


def paths_with_json(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The names of all commands that have the option."""
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(path)
    for name in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
        child = command.get_command(click.Context(command), name)
        assert child
        if not child.hidden:  # a hidden one is called by farm alone
            yield from paths_with_json(child, (*path, name))


# Arguments with which a command is done, and the members of its own; it may say that something is not as it should be.
DONE: dict[str, tuple[str, set[str]]] = {
    "accept": ("host --quick", {"findings"}),
    "artifacts list": ("", {"artifacts"}),
    "artifacts merge": ("a_tuned.bin -o merged.bin", {"file", "kind", "size_bytes", "sets", "replacements"}),
    "artifacts share": (
        "place",
        {"host", "others", "sets", "trials", "given", "bundles", "sent_bytes", "left_out"},
    ),
    "artifacts show": ("a_tuned.bin", {"file", "kind", "size_bytes", "sets"}),
    "artifacts verify": ("a_tuned.bin --offline", {"findings"}),
    "baseline list": ("", {"baselines"}),
    "baseline remove": ("good", {"removed"}),
    "baseline set": ("better 2", {"baseline", "run_before"}),
    "benchmark": ("tiny.yml --round 2", set()),
    "build": ("", {"built", "missing", "left_out"}),
    "bisect": (
        "HEAD~1 main tiny.yml --repository models --device host --turns 8 --most-turns 8",
        {"good", "bad", "ratio", "ratio_ci", "suspects", "skipped"},
    ),
    "clean": ("--device host --dry-run", {"dry_run", "units", "unfinished_files"}),
    "cluster host": ("beta --certificates ca", {"host", "folder"}),
    "cluster init": ("ca2 --name alpha", {"folder", "files"}),
    "compare": ("run:1 run:2", set()),
    "convert": ("tiny.yml", set()),
    "devices": ("", {"devices"}),
    "devices check": ("host", {"unit", "findings"}),
    "demo": ("--quick", {"report", "artifacts", "nights"}),
    "devices release": ("host", {"unit", "text"}),
    "devices trust": ("pi --yes", {"unit", "trusted", "keys"}),
    "doctor": ("", {"checks"}),
    "emulate board": ("status", {"folder", "state", "process", "unit", "devices_file", "known_hosts"}),
    "emulate phone": ("--port 0", {"address", "port", "serial", "soc", "model", "root"}),
    "engines": ("tiny.yml --turns 1 --round 2", set()),
    "forecast": ("tiny.yml", set()),
    "init": ("tiny.onnx --shape 1,3,8,8 -o kept.yml", {"file", "content"}),
    "inspect": ("tiny.yml", set()),
    "jobs cancel": ("abc123 --cluster tls://lab:1", {"job", "outcome"}),
    "jobs fetch": ("def456 --cluster tls://lab:1", set()),
    "jobs list": ("--cluster tls://lab:1", {"jobs"}),
    "jobs show": ("abc123 --cluster tls://lab:1", {"job"}),
    "jobs wait": ("abc123 --cluster tls://lab:1 --timeout 0", {"job", "outcome"}),
    "nightly": ("nightly.yml --dry-run", {"repeats", "units"}),
    "opbench": ("--filter Sigmoid --min-time 0.001 --memory buffer --precision fp32", set()),
    "operators": ("", {"operators", "checks"}),
    "quantize": ("tiny.yml --weights-only int8", set()),
    "release": ("host", {"unit", "text"}),
    "reserve": ("host --for 1m --reason flashing", {"unit", "text"}),
    "report": ("--format json", {"outcome", "headline", "folder", "index", "files"}),
    "run": ("tiny.yml --round 2", set()),
    "serve token add": ("bob --tokens tokens.json", {"name", "token"}),
    "serve token list": ("--tokens tokens.json", {"tokens"}),
    "serve token revoke": ("alice --tokens tokens.json", {"revoked"}),
    "store export": ("tables --format csv", {"format", "files"}),
    "store import": ("rows.jsonl", {"files"}),
    "store info": ("", {"store", "bundles", "runs"}),
    "store prune": ("--keep 9 --dry-run", {"dry_run", "deleted"}),
    "store verify": ("", {"store", "bundles", "problems"}),
    "tune": ("tiny.yml", set()),
    "zoo deployment": ("mobilenet_v1", {"file", "content"}),
    "zoo list": ("", {"models"}),
    "zoo write": ("mobilenet_v1 -o net.onnx --width 0.25 --size 32 --classes 2", {"file", "size_bytes"}),
}
WITH_ROWS = {
    "benchmark",
    "bisect",
    "compare",
    "convert",
    "demo",
    "engines",
    "forecast",
    "inspect",
    "opbench",
    "quantize",
    "run",
    "tune",
}
JOBS = {"demo": "run", "bisect": "compare"}  # the job that rows are of, where it is not the command
NEEDS_OPENCL = {"accept", "opbench"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model for the CPU, two stored nights, a baseline, artifacts, and lines to import."""
    folder = tmp_path_factory.mktemp("made")
    write_deployment(folder, runtime="cpu")
    (folder / "nightly.yml").write_text(NIGHTLY)
    model_repository(folder / "models", 2, 1)
    create_authority(folder / "ca", "alpha")
    publish(folder)
    with contextlib.chdir(folder):
        with Store.open() as store:
            for seed in (1, 2):
                number = store.begin("lab", "farm nightly nightly.yml")
                store.add(number, [nightly_case(seed=seed)])
                store.end(number)
            store.set_baseline("good", 1)
        assert cli.call(["store", "export", "rows.jsonl"]) == 0
        assert cli.call(["serve", "token", "add", "alice", "--tokens", "tokens.json"]) == 0
    return folder


@pytest.fixture
def folder(made: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in; what would not end ends, and no board is asked."""
    shutil.copytree(made, own_folder, dirs_exist_ok=True)
    monkeypatch.setattr(signal, "pause", _interrupt)
    monkeypatch.setattr(demo, "demonstrate", _demonstrated)
    present = lookup.present_unit
    monkeypatch.setattr(lookup, "present_unit", lambda name: BOARD if name == BOARD.name else present(name))
    monkeypatch.setattr(ssh, "host_key_of", lambda unit: TRUSTED)
    monkeypatch.setattr(jobs, "_connected", lambda *_: contextlib.nullcontext(OneJob()))
    return own_folder


class OneJob:
    """A cluster with a job until it is told to end."""

    def __init__(self) -> None:
        self._jobs = [
            JobReport(JobName("abc123", "bob@lab", "run", "nightly", 1.0), (TaskReport("mi8", "tiny", "running"),))
        ]

    def jobs(self) -> list[JobReport]:
        return self._jobs

    def cancel(self, job: str, person: str) -> None:
        self._jobs = []

    def kept_jobs(self) -> tuple[list[tuple[JobName, KeptJob]], dict[str, str]]:
        return [(JobName("def456", "bob@lab", "opbench", "nightly", 2.0), KeptJob("alpha", 0))], {}

    def ask(self, host: str, function: Any, job: str) -> bytes:
        """What came of the job that is kept."""
        came: dict[str, Any] = {"document": {"rows": [], "error": None, "exit_status": 0}, "files": {}, "left": {}}
        return json.dumps({**came, "command": "opbench", "run": new_run("opbench", "", "").model_dump()}).encode()


def _interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def _demonstrated(*_: Any) -> Demo:
    """The demonstration with a small network alone; tests/packaging runs the real one."""
    return Demo(list(run_job(deployment.load(Path("tiny.yml")), [HOST], RunOptions(validate=True))), [], [])


def document(out: str) -> dict[str, Any]:
    """The only document of the output."""
    (line,) = out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_every_command_with_json_is_in_the_table() -> None:
    assert set(paths_with_json(cli.farm)) == set(DONE)


@pytest.mark.slow
@pytest.mark.usefixtures("folder", "untold_waits")
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=pytest.mark.opencl) if path in NEEDS_OPENCL else path for path in DONE]
)
def test_a_command_that_is_done_prints_one_document(farm: CallFarm, path: str) -> None:
    arguments, members = DONE[path]
    status, out, _ = farm(*path.split(), *arguments.split(), "--json")
    found = document(out)
    assert set(found) == COMMON | members
    assert (found["schema_version"], found["command"], found["exit_status"]) == (1, path, status)
    assert (found["status"], found["error"]) == ("failed" if status else "ok", None)
    assert bool(found["rows"]) == (path in WITH_ROWS)
    assert all(row["job"] == JOBS.get(path, path) for row in found["rows"])


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_demonstrations_nights_give_the_last_ones_rows_and_verdict(
    farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open() as store:
        nights = [load_night(store, number) for number in (1, 2)]
    monkeypatch.setattr(demo, "measure_nights", lambda *_: iter(nights))
    status, out, _ = farm("demo", "--only", "nights", "--json")
    found = document(out)
    assert (status, found["report"], found["artifacts"]) == (0, None, [])
    assert [(row["job"], row["unit"]) for row in found["rows"]] == [("nightly", nights[-1].rows[0].unit)]
    assert (found["nights"]["run"], found["nights"]["outcome"]) == (2, nights[-1].outcome)
    assert Path(found["nights"]["report"]).is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_document_and_an_export_cannot_share_standard_output(farm: CallFarm) -> None:
    status, out, err = farm("store", "export", "-", "--json")
    assert (status, document(out)["error"]["kind"]) == (2, "config")
    assert err == "error: store export -: with --json the document takes standard output; name a file\n"
    assert document(farm("store", "export", "all.jsonl", "--json")[1])["files"] == [
        {"file": "all.jsonl", "size_bytes": Path("rows.jsonl").stat().st_size}
    ]


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("path", DONE)
def test_an_unknown_option_is_a_document_too(farm: CallFarm, path: str) -> None:
    status, out, err = farm(*path.split(), "--json", "--bogus")
    found = document(out)
    assert status == 2 and set(found) == COMMON
    assert (found["command"], found["status"], found["exit_status"], found["rows"]) == (path, "error", 2, [])
    assert found["error"]["kind"] == "usage" and err == f"error: {found['error']['message']}\n"
    assert found["error"]["message"].startswith("No such option")


MISTAKES = {
    "no file": (("run", "missing.yml"), 2, "config", "run"),
    "no unit": (("run", "tiny.yml", "--device", "nobody"), 3, "no_unit", "run"),
    "damaged artifact": (("artifacts", "show", "tiny.yml"), 2, "format", "artifacts show"),
    "no store": (("store", "info", "--store", "none.db"), 2, "config", "store info"),
    "missing argument": (("zoo", "write"), 2, "usage", "zoo write"),
    "no such command": (("zop",), 2, "usage", ""),
    "no such command of a group": (("zoo", "lst"), 2, "usage", "zoo"),
    "a group alone": (("store",), 2, "usage", "store"),
    "nothing": ((), 2, "usage", ""),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_document_and_a_line(farm: CallFarm, own_folder: Path, name: str) -> None:
    write_deployment(own_folder)
    arguments, expected, kind, command = MISTAKES[name]
    status, out, err = farm(*arguments, "--json")
    found = document(out)
    assert (status, found["exit_status"], found["error"]["kind"], found["command"]) == (
        expected,
        expected,
        kind,
        command,
    )
    assert (found["status"], found["rows"]) == ("error", []) and set(found) == COMMON
    assert err == f"error: {found['error']['message']}\n"


@pytest.mark.parametrize(
    ("error", "status", "kind", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted", "interrupted"),
        (OSError(28, "No space left on device", "/x/y"), 1, "no_room", "/x/y: No space left on device"),
        (DeviceLostError("gone\nfor good"), 1, "device_lost", "gone for good"),
    ],
)
def test_what_ends_a_command_early_is_a_document(
    farm: CallFarm,
    own_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    kind: str,
    text: str,
) -> None:
    def failing(*_: Any) -> Any:
        raise error

    write_deployment(own_folder)
    monkeypatch.setattr(run, "run_job", failing)
    code, out, err = farm("run", "tiny.yml", "--json")
    assert (code, document(out)["error"]) == (status, {"message": text, "kind": kind})
    assert err.splitlines()[-1] == f"error: {text}"


def test_an_interrupted_search_says_how_to_go_on(
    farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deployment(own_folder)
    monkeypatch.setattr(tune, "tune_job", _interrupt)
    status, out, err = farm("tune", "tiny.yml", "--device", "host", "--json")
    found = document(out)
    assert (status, found["exit_status"], found["error"]["kind"]) == (130, 130, "interrupted")
    assert err.splitlines()[-1] == found["error"]["message"] and "the next call goes on" in err


@pytest.mark.usefixtures("own_folder")
def test_without_json_nothing_is_printed_on_standard_output(farm: CallFarm) -> None:
    assert farm("run", "missing.yml")[1] == ""
    assert farm("artifacts", "show", "--", "--json")[1] == "", "after -- it is the name of a file"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FarmError("x"), "failure"),
        (NoUnitError("x"), "no_unit"),
        (UnsupportedError("x"), "unsupported"),
        (type("Own", (NoUnitError,), {})("x"), "no_unit"),
        (click.UsageError("x"), "usage"),
        (OSError("x"), "system"),
        (click.Abort(), "interrupted"),
    ],
)
def test_the_kind_of_an_error_is_that_of_the_tree(error: BaseException, kind: str) -> None:
    assert kind_of(error) == kind


def test_a_command_may_not_take_a_member_of_every_document() -> None:
    with pytest.raises(AssertionError, match="status"):
        Document(members={"status": "fine"}).text("x")


def test_the_command_is_found_among_options() -> None:
    assert envelope.command_name(["store", "--json", "info", "--runs", "3"], cli.COMMANDS) == "store info"
    assert envelope.command_name(["--json"], cli.COMMANDS) == ""
