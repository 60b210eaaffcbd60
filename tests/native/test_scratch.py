"""What a build that is killed leaves behind is removed by the next, or by `farm clean`, and never a living one's."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import cli
from runtime.native.build import build_farmrt
from runtime.native.model_code import write_model_code

pytestmark = pytest.mark.slow

ABI_FOLDER = Path("build") / "farmrt" / "host"
BUILD = """
import time
from pathlib import Path
from runtime.native import build

def compile_for_ever(*_):
    print("compiling", flush=True)
    time.sleep(600)

build.object_cache.compile_or_take = compile_for_ever
build.build_farmrt(output_dir=Path("build/farmrt"))
"""


@pytest.fixture
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that builds farmrt in the working folder, and has begun."""
    monkeypatch.chdir(tmp_path)
    with subprocess.Popen([sys.executable, "-c", BUILD], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"compiling\n"
        yield process
        process.kill()


def scratch_folders(folder: Path = ABI_FOLDER) -> list[str]:
    return [str(path) for path in folder.glob(".scratch-*")]


def unfinished(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    assert cli.call(["clean", "--device", "host", "--json", *words]) == 0
    files: list[str] = json.loads(capsys.readouterr().out)["unfinished_files"]
    return files


def test_farm_clean_tells_a_living_build_from_a_killed_one(
    building: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    (left,) = scratch_folders()
    assert unfinished(capsys) == [] and scratch_folders() == [left]
    building.send_signal(signal.SIGKILL)
    building.wait()
    assert unfinished(capsys, "--dry-run") == [left] and scratch_folders() == [left]
    assert unfinished(capsys) == [left] and not scratch_folders()


def test_the_next_build_removes_it(building: subprocess.Popen[bytes]) -> None:
    building.send_signal(signal.SIGKILL)
    building.wait()
    assert scratch_folders()
    build_farmrt(output_dir=Path("build/farmrt"))
    assert not scratch_folders()


def test_the_next_model_that_becomes_code_does_so_too(tmp_path: Path) -> None:
    (tmp_path / ".scratch-dead").mkdir()
    (tmp_path / ".scratch-dead" / "content.s").write_text("half")
    write_model_code(tmp_path, "net", b"plan", None)
    assert not scratch_folders(tmp_path)
