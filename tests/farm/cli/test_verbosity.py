"""-v and -vv: what is done goes to standard error, and never among what a command prints."""

import json
import logging
from pathlib import Path

import pytest

from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import write_deployment

RUN = ("tiny.yml", "--round", "1", "--json")


@pytest.fixture(autouse=True)
def deployment(own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu")


def test_without_it_nothing_is_said(farm: CallFarm) -> None:
    status, out, said = farm("run", *RUN)
    assert (status, said) == (0, "") and json.loads(out)["status"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("words", [("-v", "run", *RUN), ("run", "-v", *RUN), ("-v", "run", "-v", *RUN)])
def test_commands_pushes_and_decisions(farm: CallFarm, words: tuple[str, ...]) -> None:
    status, out, said = farm(*words)
    assert status == 0 and json.loads(out)["status"] == "ok"
    lines = said.splitlines()
    for part in (
        " host: sh -c ",
        " host: push 2 files; ",
        "; exit status 0; ",
        " host: tiny (cpu)",
        "tuned parameters: ",
    ):
        assert any(part in line for line in lines), part
    assert not any("farmrt: info:" in line for line in lines)
    assert max(map(len, lines)) < 300


@pytest.mark.slow
def test_twice_tells_farmrts_log_with_the_units_name(farm: CallFarm) -> None:
    status, out, said = farm("run", "-vv", *RUN)
    assert status == 0 and json.loads(out)["status"] == "ok"
    assert " host: farmrt: info: run: ok after " in said
    assert " host: farmrt: info: CPU operators: " in said


@pytest.mark.slow
def test_the_next_command_is_quiet_again(farm: CallFarm) -> None:
    assert farm("-vv", "run", *RUN)[2]
    assert farm("run", *RUN)[2] == ""
    assert logging.getLogger("farm").level == logging.NOTSET
