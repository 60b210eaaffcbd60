"""Makes the emulated board's root folder: Debian for ARM64 with sshd, PoCL and a user who logs in with a key.

Packages come from the Debian mirror that this machine's apt uses, which also checks their signatures; they are kept
for the next time.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from farm import atomic_file
from farm.emulation import namespace
from runtime.errors import ConfigError

USER = "farm"
SOC = "qemu-arm64"
MODEL = "QEMU ARM64 board"
PACKAGES = ("openssh-server", "pocl-opencl-icd", "python3")
UNPACKED_BYTES = 1500 * 1024**2
INSTALL_DEADLINE_S = 3600.0
SETTLE_DEADLINE_S = 300.0
ARCHIVES = "/var/cache/apt/archives"

SSHD = "/usr/sbin/sshd"
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
USER_KEY = "root/key"

# The account has no password that could be tried; the emulated CPU is the one that /proc/cpuinfo shows.
_SSHD_CONFIG = f"""\
ListenAddress 127.0.0.1
HostKey /{HOST_KEY}
AllowUsers {USER}
AuthorizedKeysFile /etc/ssh/authorized_keys
AuthenticationMethods publickey
UsePAM no
SetEnv QEMU_CPU=cortex-a72
Subsystem sftp internal-sftp
"""
_CPU = """\
processor\t: {core}
BogoMIPS\t: 100.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""
_SETTLE = f"""
useradd --create-home --shell /bin/sh --password '*' {USER}
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N '' -C board -f /{HOST_KEY}
ssh-keygen -q -t ed25519 -N '' -C farm -f /{USER_KEY}
install -m 644 /{USER_KEY}.pub /etc/ssh/authorized_keys
install -d -m 755 /run/sshd
exec {SSHD} -t
"""

Say = Callable[[str], None]


def make(root: Path, packages_folder: Path, log: Path, handler: str, mirror: tuple[str, str], say: Say) -> None:
    """Makes `root` completely or not at all; `mirror` is address and suite. Raises ConfigError or JobError."""
    _check_folder(root.parent)
    partial = root.with_name(f"{root.name}.partial")
    packages_folder.mkdir(parents=True, exist_ok=True)
    _remove_partial(partial, packages_folder)
    log.write_bytes(b"")
    downloaded = len(list(packages_folder.glob("*.deb")))
    say(f"Debian {mirror[1]} for ARM64 from {mirror[0]}; {downloaded} packages are here already")
    stages = _Stages(say)
    namespace.run(
        handler, _mmdebstrap(partial, packages_folder, mirror), log, INSTALL_DEADLINE_S, on_line=stages.on_line
    )
    stages.begin("making user, keys and sshd's configuration")
    _write_files(partial)
    namespace.run(handler, ["/bin/sh", "-euc", _SETTLE], log, SETTLE_DEADLINE_S, partial)
    stages.end()
    partial.rename(root)


def apt_mirror() -> tuple[str, str]:
    """Address and suite of the Debian mirror in this machine's apt sources; raises ConfigError where there is none."""
    fields = "$(SITE) $(RELEASE) $(COMPONENT) $(ORIGIN)"
    command = ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except OSError:
        lines = []
    for site, suite, *rest in (line.split(" ") for line in lines):
        if rest == ["main", "Debian"] and "-" not in suite:
            return site, suite
    raise ConfigError(
        "this machine's apt knows no Debian mirror (apt update?); name one: --mirror URL --suite bookworm"
    )


def _remove_partial(partial: Path, packages_folder: Path) -> None:
    """Deletes what an interrupted `make` left, but keeps the packages that it had downloaded completely."""
    for package in partial.glob(f".{ARCHIVES}/*.deb"):
        shutil.move(package, packages_folder / package.name)
    shutil.rmtree(partial, ignore_errors=True)


def _mmdebstrap(root: Path, packages_folder: Path, mirror: tuple[str, str]) -> list[str]:
    packages = shlex.quote(str(packages_folder.resolve()))
    return [
        *("mmdebstrap", "--mode=root", "--arch=arm64", "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *("--aptopt=Apt::Install-Recommends false", "--dpkgopt=force-unsafe-io"),
        *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "locale", "man")),
        "--skip=essential/unlink,check/qemu",
        f'--setup-hook=mkdir -p "$1"{ARCHIVES}',
        f"--setup-hook=sync-in {packages} {ARCHIVES}",
        f"--customize-hook=sync-out {ARCHIVES} {packages}",
        *(mirror[1], str(root.resolve()), mirror[0]),
    ]


def _write_files(root: Path) -> None:
    cores = os.cpu_count() or 1
    cpuinfo = "".join(_CPU.format(core=core) for core in range(cores)) + f"Hardware\t: {MODEL}\n"
    files = {
        "etc/cpuinfo": cpuinfo,
        "etc/hostname": "farm-board\n",
        "etc/ssh/sshd_config": _SSHD_CONFIG,
        "sys/devices/soc0/machine": f"{SOC}\n",
        "sys/devices/virtual/dmi/id/product_name": f"{MODEL}\n",
    }
    for name, text in files.items():
        atomic_file.write(root / name, text.encode())
    (root / "sys/devices/system").mkdir()


def _check_folder(folder: Path) -> None:
    """Refuses a folder whose file system allows no programs or device files, or has too little free storage."""
    folder.mkdir(parents=True, exist_ok=True)
    status = os.statvfs(folder)
    if status.f_flag & (os.ST_NOEXEC | os.ST_NODEV):
        raise ConfigError(f"{folder}: lies on a file system mounted noexec or nodev; name another: --folder PATH")
    if status.f_bavail * status.f_frsize < UNPACKED_BYTES:
        raise ConfigError(
            f"{folder}: needs {UNPACKED_BYTES // 1024**2} MiB of free storage; name another: --folder PATH"
        )


class _Stages:
    """Says how long each stage took; a stage of mmdebstrap begins with a line of its output."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._name, self._began = "", 0.0

    def on_line(self, line: str) -> None:
        """Takes a line of mmdebstrap's output; begins a stage where the line announces one."""
        if line.startswith("I: ") and line.endswith("..."):
            self.begin(line.removeprefix("I: ").removesuffix("..."))

    def begin(self, name: str) -> None:
        """Ends the current stage and begins the next."""
        self.end()
        self._name, self._began = name, time.monotonic()

    def end(self) -> None:
        """Ends the current stage and says how long it took."""
        if self._name:
            self._say(f"{time.monotonic() - self._began:6.1f} s  {self._name}")
        self._name = ""
