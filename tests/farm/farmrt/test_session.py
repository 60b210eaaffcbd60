"""Session against a process that speaks farmrt's protocol and misbehaves on request."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from farm.farmrt.session import Session, encode_command
from farm.transport.local import LocalTransport
from runtime.errors import DeadlineError, DeviceError, DeviceLostError

FAKE = """#!/usr/bin/env python3
import json, os, signal, sys, time

def answer(**members):
    print(json.dumps({"ok": True, **members}), flush=True)

for line in sys.stdin:
    command, *words = line.split()
    values = dict(word.split("=", 1) for word in words)
    if command == "echo":
        answer(line=line.rstrip("\\n"), values=values)
    elif command == "environment":
        answer(value=os.environ.get(values["name"]))
    elif command == "fail":
        print(json.dumps({"ok": False, "error": "opencl", "message": "clBuildProgram: -11", "step": 3}), flush=True)
    elif command == "hang_watched":
        print(json.dumps({"ok": False, "error": "hang", "message": "launch did not finish", "step": 7}), flush=True)
        sys.exit(4)
    elif command == "hang":
        time.sleep(60)
    elif command == "crash":
        print("LLVM ERROR: cannot scalarize", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGABRT)
    elif command == "leave":
        sys.exit(3)
    elif command == "noise":
        print("WARNING: linker: unused DT entry", flush=True)
        print(flush=True)
        answer(after="noise")
    elif command == "garbage":
        print('{"ok": tru', flush=True)
    elif command == "wrong_shape":
        print('{"okay": 1}', flush=True)
    elif command == "partial":
        print('{"ok": true, "wall', end="", flush=True)
        sys.exit(0)
    elif command == "slow_partial":
        print('{"ok": true', end="", flush=True)
        time.sleep(60)
    elif command == "flood":
        while True:
            print("nothing to see", flush=True)
            time.sleep(0.01)
    elif command == "progress":
        for _ in range(int(values["times"])):
            time.sleep(0.2)
            print("progress", flush=True)
        if values.get("then") == "hang":
            time.sleep(60)
        answer(after="progress")
    elif command == "quit":
        break
"""


@pytest.fixture
def transport(tmp_path: Path) -> Iterator[LocalTransport]:
    script = tmp_path / "unit" / "farmrt"
    script.parent.mkdir()
    script.write_text(FAKE)
    script.chmod(0o755)
    local = LocalTransport(script.parent)
    yield local
    local.close()


@pytest.fixture
def session(transport: LocalTransport) -> Iterator[Session]:
    with Session(transport, "farmrt", deadline_s=10) as opened:
        yield opened


@pytest.mark.slow
def test_a_command_may_take_long_as_long_as_it_progresses(session: Session) -> None:
    assert session.command("progress", times=6, deadline_s=0.9).model_extra == {"ok": True, "after": "progress"}
    with pytest.raises(DeadlineError, match=r"within 0\.9 s"):
        session.command("progress", times=2, then="hang", deadline_s=0.9)


def test_what_an_answer_says_is_a_member(session: Session) -> None:
    answer = session.command("echo", name="input", rounds=3, profile=True, tuned=None)
    assert answer.line == "echo name=input rounds=3 profile=1"


def test_two_processes_work_on_what_both_were_sent(session: Session, transport: LocalTransport) -> None:
    """The first one's answer is there before it is asked for, and the second one's is asked for first."""
    with Session(transport, "farmrt", deadline_s=10) as other:
        first, second = session.sent("echo", name="a"), other.sent("echo", name="b")
        assert (second().line, first().line) == ("echo name=b", "echo name=a")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a b", "100%", "line\nbreak", "größe", "-DA=1 -DB=2", "tab\there", "a+b&c;$(d)"])
def test_values_survive_encoding_in_a_line(session: Session, text: str) -> None:
    answer = session.command("echo", options=text)
    assert unquote(answer.values["options"]) == text


def test_lists_are_separated_by_commas() -> None:
    assert encode_command("trial", {"global": (64, 8, 1), "local": [4, 2, 1]}) == "trial global=64,8,1 local=4,2,1"


@pytest.mark.slow
def test_the_environment_reaches_the_process(transport: LocalTransport) -> None:
    with Session(transport, "farmrt", {"FARM_OPENCL": "/no where/lib.so"}) as session:
        assert session.command("environment", name="FARM_OPENCL").value == "/no where/lib.so"


def test_an_error_answer_says_its_kind_and_the_session_goes_on(session: Session) -> None:
    with pytest.raises(DeviceError, match=r"fail: clBuildProgram: -11 \(step 3\)") as caught:
        session.command("fail")
    assert caught.value.kind == "opencl"
    assert session.command("echo").ok


def test_a_crash_names_the_signal_and_the_last_words(session: Session) -> None:
    with pytest.raises(DeviceLostError, match=r"crash: .*SIGABRT.*cannot scalarize"):
        session.command("crash")
    assert not session.alive
    with pytest.raises(DeviceLostError, match="has ended"):
        session.command("echo")


@pytest.mark.slow
def test_an_exit_says_its_status(session: Session) -> None:
    with pytest.raises(DeviceLostError, match="exit status 3"):
        session.command("leave")


@pytest.mark.slow
def test_respawn_gives_a_new_process(session: Session) -> None:
    with pytest.raises(DeviceLostError):
        session.command("crash")
    session.respawn()
    assert session.alive and session.respawns == 1
    assert session.command("echo").ok


@pytest.mark.parametrize("command", ["hang", "slow_partial", "flood"])
def test_no_answer_in_time_ends_the_process(session: Session, command: str) -> None:
    with pytest.raises(DeadlineError, match=rf"{command}: farmrt did not answer within 0.2 s"):
        session.command(command, deadline_s=0.2)
    assert not session.alive


@pytest.mark.slow
def test_a_hang_that_farmrt_reports_is_a_deadline(session: Session) -> None:
    with pytest.raises(DeadlineError, match=r"launch did not finish \(step 7\)"):
        session.command("hang_watched")
    assert not session.alive


@pytest.mark.slow
def test_lines_that_are_no_answers_are_skipped(session: Session) -> None:
    assert session.command("noise").after == "noise"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["garbage", "wrong_shape"])
def test_an_unreadable_answer_ends_the_session(session: Session, command: str) -> None:
    with pytest.raises(DeviceError, match="cannot be read") as caught:
        session.command(command)
    assert caught.value.kind == "bad_answer"
    assert not session.alive


@pytest.mark.slow
def test_a_partial_line_does_not_count_as_an_answer(session: Session) -> None:
    with pytest.raises(DeviceLostError, match="exit status 0"):
        session.command("partial")


@pytest.mark.slow
def test_a_session_may_be_closed_twice(session: Session) -> None:
    session.close()
    session.close()
    assert not session.alive
