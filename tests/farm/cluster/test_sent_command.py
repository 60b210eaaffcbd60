"""A command line as its host reads it: options as given, files as the job's own, and nothing that is the client's."""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import pytest

from farm.cli import farm
from farm.cli.clusters import NOT_SENT, sent_command


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
