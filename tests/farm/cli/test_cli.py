import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import onnx
import pytest

from farm import cli, doctor
from farm.cli import options
from farm.doctor import Check
from runtime.errors import ConfigError, FarmError, JobError, NoUnitError
from tests.farm.store.rows import a_row


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Gives `farm` a command `fail` that raises the error."""

    def install(error: BaseException) -> None:
        @click.command()
        def command() -> None:
            raise error

        monkeypatch.setattr(cli.LazyGroup, "get_command", lambda group, context, name: command)
        monkeypatch.setitem(cli.COMMANDS, "fail", "")

    return install


ERRORS = {
    "config": (ConfigError("net.yml:3: x: unknown key"), 2, "error: net.yml:3: x: unknown key\n"),
    "no unit": (NoUnitError("no unit"), 3, "error: no unit\n"),
    "job": (JobError("failed"), 1, "error: failed\n"),
    "two lines": (FarmError("one\ntwo\r\nthree"), 1, "error: one two three\n"),
    "terminal escapes": (FarmError("a\x1b[31mred\x07\x9b"), 1, "error: a\\x1b[31mred\\x07\\x9b\n"),
    "interrupted": (KeyboardInterrupt(), 130, "error: interrupted\n"),
    "aborted": (click.Abort(), 130, "error: interrupted\n"),
    "system": (OSError(28, "No space left on device", "/x/y"), 1, "error: /x/y: No space left on device\n"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_one_line_and_a_status(
    fail_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    error, status, text = ERRORS[name]
    fail_with(error)
    assert cli.call(["fail"]) == status
    captured = capsys.readouterr()
    assert captured.err.lstrip("\n") == text
    assert captured.out == ""


def test_a_row_that_is_not_ok_is_told_and_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    bad = a_row(status="failed", reason="no luck")
    assert [options.finish(rows, False, lambda rows: None) for rows in ([a_row()], [a_row(), bad])] == [0, 1]
    assert capsys.readouterr().err == "net on pixel (gpu): failed: no luck\n"


def test_a_bug_is_not_disguised(fail_with: Callable[[BaseException], None]) -> None:
    fail_with(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.call(["fail"])


USAGE = {
    ("zop",): "error: unknown command 'zop', did you mean 'zoo'? (see farm --help)\n",
    ("zoo", "lst"): "error: No such command 'lst'. Did you mean 'list'? (see farm zoo --help)\n",
    ("run", "--validat", "x.yml"): "error: No such option '--validat'. "
    "Did you mean '--validate' or '--wait' or '--validate_all_layers'? (see farm run --help)\n",
    ("doctor", "--jso"): "error: No such option '--jso'. Did you mean '--json'? (see farm doctor --help)\n",
    ("zoo", "write"): "error: Missing argument 'NAME'. (see farm zoo write --help)\n",
}


@pytest.mark.parametrize("arguments", USAGE)
def test_usage_mistakes(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert cli.call(arguments) == 2
    assert capsys.readouterr().err == USAGE[arguments]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["--version"]) == 0
    assert capsys.readouterr().out.startswith("farm 0.")


COMPLETIONS = {"farm ru": "plain,run", "farm run --val": "plain,--validate", "farm emulate ph": "plain,phone"}


@pytest.mark.slow
@pytest.mark.parametrize(("words", "completed"), COMPLETIONS.items(), ids=COMPLETIONS)
def test_the_shell_completes_commands_and_options(words: str, completed: str) -> None:
    environment = {"_FARM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    program = [sys.executable, "-c", "import sys; from farm.cli import main; main()"]
    done = subprocess.run(program, env=os.environ | environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{completed}\n"


def test_the_quick_demonstration_has_no_nights(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["demo", "--quick", "--only", "nights"]) == 2
    assert "--quick leaves out the nights" in capsys.readouterr().err
    assert cli.call(["demo", "--opencl", "intel", "--only", "nights"]) == 2
    assert "--opencl is for the main job" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call([]) == 2
    assert "Usage: farm" in capsys.readouterr().err


@pytest.mark.slow
def test_output_that_nobody_reads_is_no_traceback() -> None:
    program = "import sys; from farm import cli; sys.argv[1:] = ['zoo', 'list', '--json']; cli.main()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_zoo_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["zoo", "list", "--json"]) == 0
    models = {model["name"]: model for model in json.loads(capsys.readouterr().out)["models"]}
    assert models["mobilenet_v1"]["input_shape"] == [1, 3, 224, 224]
    assert cli.call(["zoo", "list"]) == 0
    assert "mobilenet_v1        | 1x3x224x224 |" in capsys.readouterr().out


@pytest.mark.slow
def test_zoo_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    options = ["--width", "0.25", "--size", "32", "--classes", "10", "--seed", "3"]
    assert cli.call(["zoo", "write", "mobilenet_v1", "-o", str(path), *options]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: ")
    onnx.checker.check_model(onnx.load(path))


@pytest.mark.slow
def test_zoo_write_refuses_what_it_cannot_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    assert cli.call(["zoo", "write", "mobilnet_v1", "-o", str(path)]) == 2
    assert "did you mean 'mobilenet_v1'" in capsys.readouterr().err
    path.touch()
    assert cli.call(["zoo", "write", "mobilenet_v1", "-o", str(path / "net.onnx")]) == 2
    assert f"{path}/net.onnx cannot be written: {path} is no folder" in capsys.readouterr().err
    path.unlink()
    assert not path.exists()


def test_doctor_prints_what_it_found_and_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [Check("python", "ok", "3.11.7"), Check("linker", "missing", "no ld", "make setup")]
    monkeypatch.setattr(doctor, "examine", lambda probe, every: checks)
    assert cli.call(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ok       python          3.11.7",
        "missing  linker          no ld",
        "                         -> make setup",
        "",
        "not ready: linker is missing; do what the arrows say, then `farm doctor` again",
    ]
    assert cli.call(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["checks"][1]["advice"] == "make setup"
    monkeypatch.setattr(doctor, "examine", lambda probe, every: checks[:1])
    assert cli.call(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("\n\nready; next: farm run zoo://squeezenet_v11\n")
