"""Runs ARM64 programs on this machine, as root: with qemu-user, registered in binfmt_misc, in private namespaces.

All mounts and processes belong to a mount and a PID namespace. When the namespace's first process ends, for whatever
reason, the kernel kills the others and removes the mounts: a failure leaves nothing to clean up.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from farm.host_system import check_linux
from runtime.errors import ConfigError, DeadlineError, JobError

QEMU = "qemu-aarch64-static"
TOOLS = {QEMU: "qemu-user-static", "mmdebstrap": "mmdebstrap", "unshare": "util-linux", "chroot": "coreutils"}
REFUSED = 125
SHOWN_LINES = 5

BINFMT = Path("/proc/sys/fs/binfmt_misc")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "HOME": "/root",
}

# Flag F opens the emulator now, so that it need not be inside the root; P keeps the programs' argv[0].
_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
_SCRIPT = f"""
handler=$1 qemu=$2 root=$3
shift 3
refuse() {{ echo "$1" >&2; exit {REFUSED}; }}
[ -e {BINFMT}/register ] || mount -t binfmt_misc binfmt_misc {BINFMT} ||
    refuse "this kernel does not offer binfmt_misc (as root: modprobe binfmt_misc)"
[ -e {BINFMT}/$handler ] || printf '%s' ":$handler:M::{_MAGIC}:{_MASK}:$qemu:PF" >{BINFMT}/register ||
    refuse "this machine does not let root register an emulator with binfmt_misc"
[ -n "$root" ] || exec "$@"
mount -t proc proc "$root/proc" &&
    mount --bind "$root/etc/cpuinfo" "$root/proc/cpuinfo" &&
    mount --rbind /sys/devices/system "$root/sys/devices/system" &&
    mount --rbind /dev "$root/dev" || refuse "the file systems of $root cannot be mounted"
exec chroot "$root" "$@"
"""
_FORGET = f"""
[ -e {BINFMT}/register ] || mount -t binfmt_misc binfmt_misc {BINFMT}
[ ! -e {BINFMT}/$1 ] || echo -1 >{BINFMT}/$1
"""


def require_root() -> None:
    """Raises ConfigError where this is no Linux, or the user is not root."""
    check_linux("an emulated board")
    if os.geteuid() != 0:
        raise ConfigError("an emulated board needs root: sudo .venv/bin/farm emulate board ...")


def require_namespaces() -> None:
    """Raises ConfigError where this machine or user cannot run ARM64 programs so; the text says what to do."""
    require_root()
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        raise ConfigError(f"an emulated board needs more programs; Debian and Ubuntu: apt install {' '.join(missing)}")
    with contextlib.suppress(OSError):
        completed = subprocess.run(_unshare("true"), capture_output=True, text=True)
        if completed.returncode:
            raise ConfigError(f"this machine does not let root make namespaces ({completed.stderr.strip()})")


def command_in_namespace(handler: str, argv: Sequence[str], root: Path | None = None) -> list[str]:
    """Makes the command line that runs a program in new namespaces, with `root` as its root folder if given.

    `handler` names the emulator's entry in binfmt_misc; see `unregister_handler`.
    """
    qemu = shutil.which(QEMU) or QEMU
    return _unshare("sh", "-uc", _SCRIPT, "sh", handler, qemu, str(root.resolve()) if root else "", *argv)


def run(
    handler: str,
    argv: Sequence[str],
    log: Path,
    deadline_s: float,
    root: Path | None = None,
    on_line: Callable[[str], None] = lambda line: None,
) -> None:
    """Runs a program to its end; appends its output to a log and gives each line to `on_line`.

    Raises JobError with the log's last lines when the program fails, DeadlineError when it does not end in time.
    """
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        *command_in_namespace(handler, argv, root),
    ]  # ends also when this process is killed
    with log.open("a") as log_file, _start(command) as process:
        killer = threading.Timer(deadline_s, process.kill)
        killer.start()
        try:
            for line in process.stdout or ():
                log_file.write(line)
                on_line(line.strip())
            status = process.wait()
        finally:
            killer.cancel()
            process.kill()
            unregister_handler(handler)
    if status == -signal.SIGKILL:
        raise DeadlineError(f"{argv[0]}: did not end within {deadline_s:g} s; see {log}")
    if status:
        raise JobError(f"{argv[0]}: ended with exit status {status}: {log_tail(log)} (all in {log})")


def unregister_handler(handler: str) -> None:
    """Removes the emulator from binfmt_misc, whose entries otherwise stay while any namespace has it mounted."""
    command = ["unshare", "--mount", "sh", "-uc", _FORGET, "sh", handler]
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)


def log_tail(log: Path) -> str:
    """The last lines of a log, joined to one line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "; ".join(lines[-SHOWN_LINES:]) or "it said nothing"


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=ENVIRONMENT,
    )


def _unshare(*argv: str) -> list[str]:
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", *argv]
