"""Each real shell, set up with docs/install.md's lines, completes commands, options and files when Tab is pressed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import require

PAGE = Path(__file__).parents[3] / "docs/install.md"
DEADLINE_S = 60.0
READY = b"ready> "
# Startup file in the home folder, and the line that makes the prompt one that can be waited for.
SHELLS = {
    "bash": (".bashrc", "PS1='ready> '"),
    "zsh": (".zshrc", "PS1='ready> '"),
    "fish": (".config/fish/config.fish", "function fish_prompt; printf 'ready> '; end"),
}
# What is typed before Tab, and the arguments that farm is then called with.
COMPLETIONS = {
    "farm ru": "run",
    "farm run --val": "run --validate",
    "farm emulate ph": "emulate phone",
    "farm run ti": "run tiny.yml",
}
# Completes as farm does; any other call leaves a line with its arguments.
FARM = f"""#!/bin/sh
if [ -n "$_FARM_COMPLETE" ]; then exec {sys.executable} -c 'from farm.cli import main; main()' "$@"; fi
echo "$*" >>"$HOME/called"
"""


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A shell of this machine, whose startup file has the lines that docs/install.md gives for it."""
    name: str = request.param
    require(name, "" if shutil.which(name) else f"no {name} on this machine: apt install {name}")
    startup_file, prompt = SHELLS[name]
    lines = [line for line in PAGE.read_text().splitlines() if f"# in ~/{startup_file}" in line]
    assert lines, f"docs/install.md says nothing of ~/{startup_file}"
    path = tmp_path / startup_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*map(str.strip, lines), prompt, ""]))
    (tmp_path / "tiny.yml").touch()
    (tmp_path / "farm").write_text(FARM)
    (tmp_path / "farm").chmod(0o755)
    return name


def wait_for_prompt(terminal: int) -> None:
    """Reads what the shell prints until its prompt is among it."""
    output, end_s = b"", time.monotonic() + DEADLINE_S
    while READY not in output:
        readable, _, _ = select.select([terminal], [], [], max(0.0, end_s - time.monotonic()))
        assert readable, f"no prompt within {DEADLINE_S:g} s: {output!r}"
        output += os.read(terminal, 4096)


@pytest.mark.slow
def test_tab_completes_commands_options_and_files(shell: str, tmp_path: Path) -> None:
    search = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "PATH": search, "TERM": "xterm", "PYTHONPATH": str(PAGE.parents[1])}
    controller, terminal = pty.openpty()
    command = ["setsid", "--ctty", shell, "-i"]  # fish starts only on a terminal of its own
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **streams) as process:
        os.close(terminal)
        try:
            for words in COMPLETIONS:
                wait_for_prompt(controller)
                os.write(controller, f"{words}\t\r".encode())
            wait_for_prompt(controller)
        finally:
            process.kill()
            os.close(controller)
    assert (tmp_path / "called").read_text().splitlines() == [*COMPLETIONS.values()]
