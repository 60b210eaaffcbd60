"""`farm clean` on the host as a unit."""

import json
import os
from pathlib import Path

import pytest

from farm import cli, host_system
from farm.config.inventory import HOST
from farm.lease import lease
from farm.transport import connect


@pytest.fixture
def unit_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "build/units/host"
    (folder / "objects/x").mkdir(parents=True)
    (folder / "objects/x/data").write_bytes(bytes(5000))
    return folder


@pytest.mark.slow
def test_clean_says_what_it_would_do_and_does_it(unit_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(["clean", "--dry-run"]) == 0
    assert "Would free" in capsys.readouterr().out and (unit_folder / "objects/x/data").exists()
    assert cli.call(["clean", "--device", "host"]) == 0
    assert [word.strip() for word in capsys.readouterr().out.splitlines()[-1].split("|")][:4] == [
        *("host", "1", "4.9 KiB", "0 B")
    ]
    assert not (unit_folder / "objects").exists()


def test_clean_leaves_young_files(unit_folder: Path) -> None:
    data = unit_folder / "objects" / ("0" * 64) / "data"
    data.parent.mkdir()
    data.write_bytes(b"x")
    assert cli.call(["clean", "--older", "1"]) == 0
    assert data.exists() and not (unit_folder / "objects/x").exists()  # that one has no whole file's name


def test_a_unit_in_use_is_left_alone(unit_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lease.acquire(HOST, connect(HOST), "tune"):
        assert cli.call(["clean"]) == 1
    assert "host: held by" in capsys.readouterr().err and (unit_folder / "objects/x/data").exists()


@pytest.mark.slow
def test_what_a_killed_process_left_half_written_goes_too(
    unit_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = host_system.process_space()
    dead, live = (
        Path("build/net/model", f".net.onnx.{space}-{os.getpid()}-{start}.abcd1234")
        for start in ("1", host_system.process_start(os.getpid()))
    )
    dead.parent.mkdir(parents=True)
    dead.write_text("half")
    live.write_text("half")
    assert cli.call(["clean", "--dry-run", "--device", "host", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unfinished_files"] == [str(dead)] and dead.exists()
    assert cli.call(["clean", "--device", "host"]) == 0
    assert "half-written files of killed processes here: 1 removed" in capsys.readouterr().out
    assert not dead.exists() and live.exists()
