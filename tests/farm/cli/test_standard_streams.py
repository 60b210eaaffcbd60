import subprocess
import sys
from pathlib import Path

import pytest

FARM = [sys.executable, "-c", "from farm.cli import main; main()"]
FULL = "error: standard output: No space left on device\n"

# Redirection -> exit status, standard error, whether standard output arrives.
REDIRECTIONS = {
    ">&-": (0, "", False),
    "2>&-": (0, "", True),
    "<&-": (0, "", True),
    "<&- >&- 2>&-": (0, "", False),
    ">/dev/full": (1, FULL, False),
    "2>/dev/full": (0, "", True),
    ">/dev/full 2>/dev/full": (1, "", False),
}


def farm(arguments: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", *FARM, *arguments]
    return subprocess.run(shell, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["zoo", "list"], ["zoo", "list", "--json"]], ids=["text", "json"])
@pytest.mark.parametrize("redirection", REDIRECTIONS)
def test_streams_that_are_closed_or_full(redirection: str, arguments: list[str]) -> None:
    status, message, arrives = REDIRECTIONS[redirection]
    done = farm(arguments, redirection)
    assert (done.returncode, done.stderr, "mobilenet_v1" in done.stdout) == (status, message, arrives)


@pytest.mark.slow
def test_a_mistake_is_told_where_its_document_has_no_room() -> None:
    done = farm(["run", "none.yml", "--json"], ">/dev/full")
    assert done.returncode == 2
    remedy = "`farm run zoo://squeezenet_v11` needs none, `farm zoo deployment NAME` writes one to start from"
    assert done.stderr == f"error: none.yml: no such file; {remedy}\n{FULL}"


def test_a_file_does_not_get_what_is_printed_to_a_closed_stream(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    program = (
        "import subprocess, sys; from farm.cli import standard_streams; standard_streams.make_usable();"
        "file = open(sys.argv[1], 'w'); print('printed'); subprocess.run(['echo', 'by another program'], check=True);"
        "file.write('kept')"
    )
    shell = ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-c", program, str(path)]
    assert subprocess.run(shell, capture_output=True, text=True, timeout=60).stderr == ""
    assert path.read_text() == "kept"


@pytest.mark.slow
def test_progress_that_nobody_reads_ends_no_job() -> None:
    program = (
        "import sys; from farm.cli import standard_streams, view; standard_streams.make_usable()\n"
        "with view.shown() as shown: shown.stage('phone', 'compiling'); print('went on')"
    )
    shell = ["sh", "-c", 'exec "$@" 2>/dev/full', "sh", sys.executable, "-c", program]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "went on\n")
