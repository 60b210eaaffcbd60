"""The shells of units, as far as this machine has them: scripts for a unit must work on all."""

import os
import shutil
from pathlib import Path

from tests.conftest import require

SHELLS = ("sh", "mksh", "busybox")
TOOLBOXES = {"mksh": "toybox", "busybox": "busybox"}
PROGRAMS = (
    "cat date df env find grep head ln ls mkdir mv printf readlink rm rmdir sha256sum sleep stat tail touch true wc"
)


def shell_environment(shell: str, folder: Path) -> dict[str, str]:
    """An environment whose `sh` is that shell, and whose programs are those that come with it; skips without them."""
    if shell == "sh":
        return dict(os.environ)
    programs = {name: shutil.which(TOOLBOXES[shell]) for name in PROGRAMS.split()} | {"sh": shutil.which(shell)}
    missing = sorted(name for name, program in programs.items() if program is None)
    require(shell, f"no {shell} with its {', '.join(missing)} on this machine" if missing else "")
    folder.mkdir(exist_ok=True)
    for name, program in programs.items():
        assert program
        (folder / name).symlink_to(program)
    return {"PATH": str(folder), "HOME": str(folder)}
