from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import time
from farm.cli import interruption
interruption.treat_termination_as_ctrl_c()
try:
    with interruption.announced("told"):
        print("working", flush=True)
        time.sleep(60)
except KeyboardInterrupt:
    print("gave back", flush=True)
"""
TERM, HUP, INT = signal.SIGTERM, signal.SIGHUP, signal.SIGINT

# How the shell starts it, what it is sent, what it says on standard error.
SIGNALS = {
    "SIGTERM": ("", [TERM], "told\n"),
    "SIGHUP": ("", [HUP], "told\n"),
    "SIGINT": ("", [INT], "told\n"),
    "in the background of a script": ("trap '' INT;", [INT, TERM], ""),
    "nohup": ("trap '' HUP;", [HUP, TERM], "told\n"),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_whoever_ends_a_command_lets_it_give_units_back(name: str) -> None:
    before, numbers, said = SIGNALS[name]
    shell = ["sh", "-c", f'{before} exec "$@"', "sh", sys.executable, "-c", WORK]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "working\n"
        for number in numbers:
            process.send_signal(number)
        assert process.communicate(timeout=120) == ("gave back\n", said)
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [TERM, HUP, INT], ids=lambda number: number.name)
def test_every_command_ends_in_order(number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from farm.cli import main; main()", "emulate", "phone", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        root = Path(json.loads(process.stdout.readline())["root"])
        assert root.exists()
        process.send_signal(number)
        assert process.communicate(timeout=120) == ("", "")
    assert process.returncode == 0
    assert not root.exists()
