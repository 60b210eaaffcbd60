"""A command line as its host reads it: options as given, files as the job's own, and nothing that is the client's."""

import errno
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from farm.cli import farm
from farm.cli.clusters import NOT_SENT, sent_command
from farm.cluster.host_files import FOLDER, HostFiles
from farm.cluster.host_job import OUTPUTS, HostJob, check_room
from farm.rows.status import Status
from runtime.errors import JobError, NoRoomError


def sent(*arguments: str) -> tuple[tuple[str, ...], list[tuple[str, Path]]]:
    """Options and files of a command line."""
    command = farm.get_command(click.Context(farm), arguments[0])
    assert command
    with command.make_context(arguments[0], list(arguments[1:])) as context:
        name, options, files = sent_command(context)
    assert name == arguments[0]
    return options[2:], files


@pytest.fixture
def folder(own_folder: Path) -> Path:
    """A folder with some files."""
    for name in ("tiny.yml", "x.npy", "a=b.npy", "tuned.bin"):
        (own_folder / name).write_bytes(b"")
    (own_folder / "samples").mkdir()
    return own_folder


@pytest.mark.usefixtures("folder")
def test_options_are_sent_as_they_were_given() -> None:
    options, files = sent(
        *(
            "run",
            "tiny.yml",
            "--validate",
            "--round",
            "3",
            "--memory",
            "buffer",
            "--num_threads",
            "2",
            "--opencl",
            "pypi",
        )
    )
    assert sorted(options) == sorted(
        ("--validate", "--round", "3", "--memory", "buffer", "--num_threads", "2", "--opencl", "pypi")
    )
    assert files == []


@pytest.mark.usefixtures("folder")
def test_what_the_client_does_is_not_sent() -> None:
    given = "--soc host --device a --tag t --all --one-per-soc --store x.db --json --retries 3 --spread --fail-fast"
    assert sent("run", "tiny.yml", *given.split(), "--cluster", "tls://lab:1", "--priority", "nightly") == ((), [])
    assert sent("benchmark", "tiny.yml", "--trace", "trace.json", "--html", "page.html") == ((), [])


@pytest.mark.usefixtures("folder")
def test_retries_are_counted_by_the_client() -> None:
    command = farm.get_command(click.Context(farm), "run")
    assert command
    with command.make_context("run", ["tiny.yml", "--retries", "5"]) as context:
        assert sent_command(context)[1] == ("--retries", "0")


@pytest.mark.usefixtures("folder")
def test_files_become_the_jobs_own() -> None:
    options, files = sent(
        *("run", "tiny.yml", "--input", "x=x.npy", "--input", "x.npy", "--tuned", "tuned.bin", "--kernels", "none")
    )
    names = {str(path): name for name, path in files[1:]}
    assert files[0] == ("arguments/0/x.npy", Path("x.npy"))
    assert options[options.index("--kernels") + 1] == "none"
    assert options[options.index("--tuned") + 1] == names["tuned.bin"]
    assert [value for option, value in itertools.pairwise(options) if option == "--input"] == [
        "x=arguments/0/x.npy",
        names["x.npy"],
    ]


@pytest.mark.usefixtures("folder")
def test_folders_of_samples_and_outputs() -> None:
    options, files = sent("run", "tiny.yml", "--input_dir", "samples", "--output-dir", "made")
    assert files == [("arguments/0/samples", Path("samples"))]
    assert options[options.index("--output-dir") + 1] == "outputs"


@pytest.mark.usefixtures("folder")
def test_commands_of_several_models_or_none() -> None:
    assert sent("tune", "tiny.yml", "tiny.yml", "--no-selection", "--level", "normal")[0] == (
        *("--level", "normal"),
        "--no-selection",
    )
    assert sent("opbench", "--filter", "conv", "--variants")[0] == ("--filter", "conv", "--variants")
    assert sent("compare", "HEAD", "tiny.yml", "--margin", "2") == (("--margin", "2.0"), [])


def test_every_name_that_is_not_sent_is_an_options() -> None:
    sent_ones = ("run", "benchmark", "tune", "compare", "nightly")
    commands = [farm.get_command(click.Context(farm), name) for name in sent_ones]
    names = {parameter.name for command in commands if command for parameter in command.params}
    assert names >= NOT_SENT


def test_all_that_a_night_is_sent_with_is_an_option_of_what_hosts_run() -> None:
    sent_one, hosts = (farm.get_command(click.Context(farm), name) for name in ("nightly", "unit-night"))
    assert sent_one and hosts
    names = {parameter.name for parameter in sent_one.params}
    assert names - NOT_SENT <= {parameter.name for parameter in hosts.params}


DONE = {"error": None, "rows": []}
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def raising(error: Exception) -> Callable[..., Any]:
    def run(*_: Any) -> Any:
        raise error

    return run


@pytest.mark.usefixtures("own_folder")
def test_what_a_job_made_is_kept_and_its_own_folder_goes() -> None:
    def run(arguments: Sequence[str], folder: Path) -> dict[str, Any]:
        (folder / arguments[1]).mkdir(parents=True)
        (folder / arguments[1] / "y.npy").write_bytes(b"result")
        return DONE

    answer = HostJob(("run", OUTPUTS), {}, "abc123").answer(run)
    digest = hashlib.sha256(b"result").hexdigest()
    assert answer == {"document": DONE, "files": {"y.npy": digest}, "left": {}}
    assert HostFiles().read_part(digest, 0, 100) == b"result"
    assert not list((FOLDER / "jobs").iterdir())


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NoRoomError("x.plan: full"), {"no_room": "x.plan: full"}),
        (FULL, {"no_room": "[Errno 28] No space left on device"}),
        (OSError(errno.EIO, "broken"), {"error": "[Errno 5] broken"}),
        (JobError("ended"), {"error": "ended"}),
    ],
)
def test_what_goes_wrong_is_an_answer_and_leaves_no_files(error: Exception, answer: dict[str, str]) -> None:
    assert HostJob(("run",), {}, "abc123").answer(raising(error)) == answer
    assert not list((FOLDER / "jobs").iterdir())


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    "document",
    [
        {"error": {"kind": "no_room", "message": "x.plan: full"}, "rows": []},
        {"error": None, "rows": [{"status": Status.OK}, {"status": Status.NO_ROOM, "reason": "x.plan: full"}]},
    ],
)
def test_a_job_that_says_that_there_is_no_room(document: dict[str, Any]) -> None:
    with pytest.raises(NoRoomError, match=r"^x\.plan: full \(in /jobs/1\)$"):
        check_room(document, Path("/jobs/1"))


@pytest.mark.usefixtures("own_folder")
def test_a_failed_job_on_a_full_disk_failed_for_want_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"error": None, "rows": [{"status": Status.BUILD_FAILED, "reason": "the compiler"}]}
    check_room(failed, Path("/jobs/1"))
    monkeypatch.setattr(HostFiles, "probe_room", raising(FULL))
    check_room(DONE, Path("/jobs/1"))
    with pytest.raises(OSError, match="No space left"):
        check_room(failed, Path("/jobs/1"))


@pytest.mark.usefixtures("own_folder")
def test_a_file_that_finds_no_room_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:3])
        raise FULL

    files, content = HostFiles(), b"weights"
    digest = hashlib.sha256(content).hexdigest()
    files.add_part(digest, "1", content, True)
    Path("made").write_bytes(b"result")
    monkeypatch.setattr(shutil, "copyfile", copy)
    for work in (lambda: files.keep(Path("made")), lambda: files.job_folder({"model.yml": digest})):
        with pytest.raises(OSError, match="No space left"):
            work()
    found = {path.name for path in FOLDER.rglob("*") if path.is_file() and not path.is_symlink()}
    assert found == {digest}
