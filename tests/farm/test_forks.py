"""What is forked for tests behaves as what `subprocess.Popen` starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.farm.forks import ForkedProcess

pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys
print(os.getcwd(), os.environ, sys.argv[1:], input(), os.getsid(0) == os.getpid(), os.listdir("/proc/self/fd"))
print("said", file=sys.stderr)
sys.exit(7)
"""
PIPE = subprocess.PIPE


@pytest.mark.parametrize("start", [ForkedProcess, subprocess.Popen])
@pytest.mark.parametrize("has_session", [False, True])
def test_a_process_has_what_it_was_given(start: type[subprocess.Popen[str]], has_session: bool, tmp_path: Path) -> None:
    command, streams = [sys.executable, "-P", "-c", PROGRAM, "one", "two"], {"stdin": PIPE, "stdout": PIPE}
    environment = {"NAME": "value", "LC_CTYPE": "C.UTF-8"}
    with start(
        command, cwd=tmp_path, env=environment, start_new_session=has_session, stderr=PIPE, text=True, **streams
    ) as process:
        out, err = process.communicate("read\n", timeout=60)
    files = ["0", "1", "2", "3"]  # the last is of the folder that is listed
    assert out == f"{tmp_path} environ({environment}) ['one', 'two'] read {has_session} {files}\n"
    assert (err, process.returncode) == ("said\n", 7)


@pytest.mark.parametrize("start", [ForkedProcess, subprocess.Popen])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_ends_it(start: type[subprocess.Popen[str]], number: int) -> None:
    program = "import time; print('begun', flush=True); time.sleep(600)"
    with start([sys.executable, "-P", "-c", program], stdout=PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout and process.stdout.readline() == "begun\n" and process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        os.kill(process.pid, number)
        assert process.wait(60) == process.poll() == -number
