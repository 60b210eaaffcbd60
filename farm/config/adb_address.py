"""Where an adb server listens: on this machine, on another one, or there behind an SSH connection.

5038                        this machine, another port than adb's own
bench7, bench7:5038         another machine, whose server was started with `adb -a`: anyone in its network may use it
ssh://[user@]bench7[:22]    another machine's own server, through an SSH connection
ssh://bench7/5038           the same on another port than adb's own
"""

import dataclasses
import re

THIS_MACHINE = "127.0.0.1"
_HOST = r"\[[0-9A-Fa-f:.%]{2,60}\]|[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_DIRECT = re.compile(rf"({_HOST})(?::(\d{{1,5}}))?")
_TUNNELED = re.compile(rf"ssh://((?:{_USER}@)?(?:{_HOST})(?::\d{{1,5}})?)(?:/(\d{{1,5}})?)?")


@dataclasses.dataclass(frozen=True)
class AdbAddress:
    """Where an adb server listens.

    Attributes:
        host: as seen from this machine or, with `ssh`, from the machine there.
        port: None for the default of adb.
        ssh: the machine that the connection goes through, `[user@]host[:port]`; empty for none.
    """

    host: str = THIS_MACHINE
    port: int | None = None
    ssh: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a server of this machine, which farm may start."""
        return not self.ssh and self.host == THIS_MACHINE

    def at(self, port: int) -> str:
        """The server on a port for people: `port 5037`, `bench7:5037`, `port 5037 of bench7`."""
        if self.ssh:
            return f"port {port} of {self.ssh}"
        return f"port {port}" if self.is_local else f"{self.host}:{port}"


LOCAL = AdbAddress()


def parse_adb_address(text: str) -> AdbAddress:
    """Reads one of the forms above; raises ValueError."""
    if text.isdigit():
        return AdbAddress(port=_port(text))
    if tunneled := _TUNNELED.fullmatch(text):
        return AdbAddress(port=_port(tunneled[2]), ssh=tunneled[1])
    if direct := _DIRECT.fullmatch(text):
        host = direct[1].strip("[]")
        return AdbAddress(THIS_MACHINE if host == "localhost" else host, _port(direct[2]))
    raise ValueError("this is no adb server: a port, host[:port] or ssh://[user@]host[:port][/port] is needed")


def _port(digits: str | None) -> int | None:
    if digits is None:
        return None
    if not 0 < int(digits) < 65536:
        raise ValueError(f"{digits} is no port")
    return int(digits)
