import contextlib
import functools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farm import cli
from farm.cli import interruption
from farm.store import Store
from tests.farm.model.tiny_model import write_deployment

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
    "in the background of a script": ("trap '' INT;", [INT, TERM], "told\n"),
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


EARLY = """
import os, signal, sys
class Finder:
    def find_spec(name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.{name})
sys.meta_path.insert(0, Finder)
from farm.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_command_that_is_ended_while_it_is_imported_says_so_in_a_line(name: str) -> None:
    program = [sys.executable, "-c", EARLY.format(name=name), "zoo", "list", "--json"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "error: interrupted\n")
    assert json.loads(ended.stdout)["error"] == {"message": "interrupted", "kind": "interrupted"}


DEAF = """
import os, sqlite3, tempfile
from farm.cli import interruption
path = os.path.join(tempfile.mkdtemp(), "farm.db")
holder, other = (sqlite3.connect(path, timeout=60) for _ in range(2))
holder.execute("BEGIN IMMEDIATE")
with interruption.announced("told"):
    print("working", flush=True)
    other.execute("BEGIN IMMEDIATE")
"""
TIDYING = """
import time
from farm.cli import interruption
try:
    with interruption.announced("told"):
        print("working", flush=True)
        time.sleep(60)
finally:
    print("tidying", flush=True)
    try:
        time.sleep(60)
    except BaseException:
        time.sleep(60)
"""


@pytest.mark.parametrize("program", [DEAF, TIDYING], ids=["in C", "after the block"])
def test_a_second_ctrl_c_ends_a_command_within_a_second(program: str) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"working\n"
        process.send_signal(INT)
        time.sleep(0.5)
        process.send_signal(INT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        killed = process.poll() is not None
        process.kill()
        assert process.stderr and process.stderr.read().splitlines()[:1] == [b"told"]
    assert killed and process.returncode in (-INT, cli.INTERRUPTED)


@pytest.mark.slow
@pytest.mark.parametrize("number", [TERM, HUP, INT], ids=lambda number: number.name)
def test_every_command_ends_in_order(number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from farm.cli import main; main()", "emulate", "phone", "--port", "0", "--json"]
    # Tests that outlive their terminal (nohup) leave what they start deaf to its signal.
    heard = functools.partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    ) as process:
        assert process.stdout
        root = Path(json.loads(process.stdout.readline())["root"])
        assert root.exists()
        process.send_signal(number)
        assert process.communicate(timeout=120) == ("", "")
    assert process.returncode == 0
    assert not root.exists()


# Command -> what an interruption tells of it.
TOLD = {
    ("tune", "tiny.yml"): "trials are kept in build/tuning/host.jsonl",
    ("run", "tiny.yml"): interruption.INTERRUPTED,
    ("benchmark", "tiny.yml"): interruption.INTERRUPTED,
    ("engines", "tiny.yml"): "interrupted",
    ("opbench",): "interrupted",
}


@pytest.mark.parametrize("command", TOLD, ids=lambda command: command[0])
def test_an_interruption_is_told_while_a_store_is_being_opened(
    command: tuple[str, ...], own_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_url: str | None) -> Store:
        raise KeyboardInterrupt

    write_deployment(own_folder)
    monkeypatch.setattr(Store, "open", interrupted)
    assert cli.call([*command, "--device", "host"]) == cli.INTERRUPTED
    assert TOLD[command] in capsys.readouterr().err.splitlines()[0]
