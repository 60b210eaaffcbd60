"""The lease's marker on the unit, by which controllers that do not know of each other agree on who holds it.

In the folder `.lease` on the unit:

    <token>        a dangling symbolic link, whose target is the claim's text (JSON). The highest token holds the unit
    <token>.beat   the unit's uptime when the holder last renewed, or `ended`
    .room          as long as a claim, which takes its room where the storage is full

A symbolic link is created with its text in one atomic step, and never replaces another. So of two controllers that
claim one token exactly one wins, on every file system of phones and boards (Android's shell may make symbolic links,
but no hard links). Each controller writes only under its own token, so a late holder cannot undo its successor's
claim. A renewal is written before the highest token is read. A claim is made before the last renewal is read once
more, and withdrawn if there was a new one. So whatever the order, one of the two notices the other. The clock that a
claim is judged by is read after it: a renewal from later than `now` would look like one from before a reboot.

Times are the unit's uptime, valid for one boot id: one clock for all controllers, which nobody can set. Only what is
left of a reservation after a reboot goes by the unit's date, and is never more than was asked for.
"""

import dataclasses
import json
import math
import re
from typing import Any

from farm import safe_text
from farm.transport import storage
from farm.transport.base import Transport
from runtime.errors import DeviceError

DEADLINE_S = 10.0
TAKE_S = 30.0
ENDED = "ended"
MAX_TOKEN = 999_999_999  # what every shell can compare
MAX_CLAIM_BYTES = 2000
MAX_LEASE_S = 86_400.0
MAX_RESERVATION_S = 14 * 86_400.0

# action; for `claim` the token, the claim's text, the token before it, and the beat that was seen of that one; for
# `take`, which claims a unit that certainly nobody holds, the text before, between and after boot id and uptime.
# A full storage has no room for a new beat, but for one that is written over the last. Where `ln` fails, another was
# faster, and may have gone on already: then another name with this text can still be made.
SCRIPT = r"""
mkdir -p .lease && cd .lease || exit 1
find_top() {
  top=0
  for name in *; do
    case $name in *[!0-9]* | 0* | ??????????*) ;; *) [ "$name" -gt "$top" ] && top=$name ;; esac
  done
}
read_beat() {
  beat=
  { read -r beat <"$1.beat"; } 2>/dev/null
  case $beat in ended) ;; *[!0-9.]*) beat= ;; esac
}
write_beat() {
  echo "$2" >"$1.$$" && mv -f "$1.$$" "$1.beat" && return
  rm -f "$1.$$"; [ -s "$1.beat" ] && echo "$2" 1<>"$1.beat"
}
read_clock() { read -r boot </proc/sys/kernel/random/boot_id; read -r uptime rest </proc/uptime; } 2>/dev/null
forget() {
  for name in *; do [ "${name%%.*}" -lt "$1" ] 2>/dev/null && rm -f -- "$name"; done
}
link() { why=$(ln -s "$2" "$1" 2>&1); }
claim() {
  link "$@" || { rm .room && link "$@"; } 2>/dev/null || {
    [ -L "$1" ] || { link .$$ "$2" && rm .$$; } && return
    echo "$why" >&2
    exit 1
  }
  read_beat "$3"
  if [ "$beat" = "$4" ]; then forget "$1"; else rm -f -- "$1"; fi
  [ -s .room ] || echo "$2" >.room
}
read_clock
text=
case $1 in
claim) claim "$2" "$3" "$4" "$5" ;;
take)
  find_top
  read_beat "$top"
  case $top-$beat-$boot-$uptime in
  999999999-* | *- | *[!0-9a-fend.-]*) ;;
  0--* | [1-9]*-ended-*) text=$2$boot$3$uptime$4 && claim $((top + 1)) "$text" "$top" "$beat" ;;
  esac ;;
renew) write_beat "$2" "$uptime" || exit 1 ;;
end) write_beat "$2" ended || exit 1 ;;
esac
find_top
read_beat "$top"
claim=$(readlink "$top" 2>/dev/null)
read_clock
[ "$1" = renew ] || echo "date=$(date +%s)"
echo "boot=$boot"
echo "uptime=$uptime"
echo "token=$top"
echo "beat=$beat"
echo "claim=$claim"
"""
# What the winner of a `take` does at once, before anybody else can hold the unit.
THEN = """
[ "$text" ] && [ "$claim" = "$text" ] || exit 0
cd .. || exit 1
"""


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a holder writes about itself.

    Attributes:
        owner: user and host, for people.
        job: what it does there, for people.
        nonce: random, so that no two claims are equal.
        lock: identity of the lock file that the holder has on its own host, see farm.lease.host_lock.
        boot, uptime_s: the unit's boot id and uptime when the claim was made.
        lease_s: how long it is valid after the claim or the last renewal.
        until_s: of a reservation, the unit's date (Unix time) at which it ends; 0 of a job's lease.
    """

    owner: str
    pid: int
    job: str
    nonce: str
    lock: str
    boot: str
    uptime_s: float
    lease_s: float
    until_s: float = 0.0

    @property
    def is_reservation(self) -> bool:
        """Whether a person took the unit off; nobody renews that, and it survives a reboot."""
        return self.until_s > 0

    def text(self) -> str:
        """The claim as a line of JSON; without backslashes, which the `echo` of some shells takes for escapes."""
        members = dataclasses.asdict(self)
        words = {name: value.replace("\\", "/") for name, value in members.items() if isinstance(value, str)}
        return json.dumps({**members, **words}, separators=(",", ":"))

    def text_around_clock(self) -> tuple[str, str, str]:
        """The text before, between and after the boot id and the uptime, which the unit fills in."""
        clock = '"boot":"","uptime_s":0.0'  # in a text of somebody's each quote has a backslash before it
        before, _, after = dataclasses.replace(self, boot="", uptime_s=0.0).text().partition(clock)
        boot, between, _ = clock.partition('","uptime_s":')
        return before + boot, between, after


@dataclasses.dataclass(frozen=True)
class MarkerState:
    """The marker and the unit's clock at one moment; `claim` is None where there is none that can be read.

    Attributes:
        token: the highest token; 0 where there is none.
        heartbeat: the uptime of the last renewal as text, ENDED, or empty where there was none.
        date_s: the unit's date as Unix time; 0 where it does not tell.
    """

    boot: str
    uptime_s: float
    token: int
    claim: Claim | None
    heartbeat: str
    date_s: float = 0.0

    @property
    def remaining_s(self) -> float:
        """Seconds until the lease expires; 0 where nobody holds one: it ended, it expired, or the unit rebooted."""
        if self.claim is None or self.heartbeat == ENDED:
            return 0.0
        if self._is_of_earlier_boot(self.claim):
            return min(max(0.0, self.claim.until_s - self.date_s), self.claim.lease_s)
        return max(0.0, self._last_s(self.claim) + self.claim.lease_s - self.uptime_s)

    @property
    def is_expired_reservation(self) -> bool:
        """Whether a person's time is over, who has not given the unit back."""
        return bool(self.claim and self.claim.is_reservation and self.heartbeat != ENDED and not self.remaining_s)

    @property
    def held_s(self) -> float:
        """Seconds since the claim was made; of a reservation from before a reboot by the unit's date."""
        if self.claim is None:
            return 0.0
        if self.claim.is_reservation and self._is_of_earlier_boot(self.claim):
            return self.claim.lease_s - self.remaining_s
        return max(0.0, self.uptime_s - self.claim.uptime_s)

    def _last_s(self, claim: Claim) -> float:
        return max(claim.uptime_s, _seconds(self.heartbeat))

    def _is_of_earlier_boot(self, claim: Claim) -> bool:
        """By the boot id, and by the uptime on a unit that has none."""
        return claim.boot != self.boot or self._last_s(claim) > self.uptime_s


class Marker:
    """Reads and writes the marker of a unit; each method runs one command there and returns the marker afterwards."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def read(self) -> MarkerState:
        """Reads the marker; changes nothing."""
        return self._run("look")

    def claim(self, claim: Claim, state: MarkerState) -> MarkerState:
        """Claims the token after that of `state`; the returned state holds `claim` if that succeeded."""
        if state.token >= MAX_TOKEN:
            raise DeviceError("the folder .lease on the unit holds no sensible token; remove it there")
        return self._run("claim", str(state.token + 1), claim.text(), str(state.token), state.heartbeat)

    def take(self, claim: Claim, then: str, *arguments: str) -> tuple[MarkerState, str]:
        """Claims the unit where certainly nobody holds it: there is no claim, or the last one was ended.

        Args:
            claim: with the unit's own boot id and uptime in place of those that it holds.
            then: a script that is run where this succeeded, in the unit's folder, with `arguments`. All scripts
                together must fit into a command of an old phone, else they are pushed as a file each time.

        Returns:
            The state, which holds `claim` if this succeeded, and all output, that of `then` included.
        """
        words = ["take", *claim.text_around_clock()]
        script = re.sub(r"(?m)^ +", "", f"{SCRIPT}{THEN}shift {len(words)}\n{then}")  # short, see above
        output = self._output(["sh", "-c", script, "lease", *words, *arguments], TAKE_S)
        return parse(output), output

    def renew(self, token: int) -> MarkerState:
        """Writes the heartbeat of a token; the returned state tells whether that token still holds the unit."""
        return self._run("renew", str(token))

    def end(self, token: int) -> MarkerState:
        """Gives a token up."""
        return self._run("end", str(token))

    def _run(self, *arguments: str) -> MarkerState:
        return parse(self._output(["sh", "-c", SCRIPT, "lease", *arguments], DEADLINE_S))

    def _output(self, argv: list[str], deadline_s: float) -> str:
        completed = self._transport.run(argv, deadline_s)
        if completed.exit_status:
            reason = safe_text.word(completed.stderr.decode(errors="replace"), 200)
            raise storage.refusal_error(
                f"the lease cannot be kept on the unit: {reason or f'exit status {completed.exit_status}'}"
            )
        return completed.stdout.decode(errors="replace")


def parse(output: str) -> MarkerState:
    """Parses what the script printed.

    Raises:
        DeviceError: the unit tells no uptime, or something else answered.
    """
    values = dict(line.split("=", 1) for line in output.split("\n") if "=" in line)
    uptime_s, token = _seconds(values.get("uptime", "")), values.get("token", "")
    if uptime_s <= 0 or not (token.isascii() and token.isdigit() and len(token) < 20):
        raise DeviceError("the unit does not tell its uptime, so nobody can hold a lease there")
    claim = parse_claim(values.get("claim", ""))
    date_s = _seconds(values.get("date", ""))
    return MarkerState(
        safe_text.word(values.get("boot", "")), uptime_s, int(token), claim, values.get("beat", ""), date_s
    )


def parse_claim(text: str) -> Claim | None:
    """Parses a claim; None where the text is none, or has impossible values."""
    try:
        values: dict[str, Any] = json.loads(text[:MAX_CLAIM_BYTES])
        texts = {name: safe_text.word(values[name]) for name in ("owner", "job", "nonce", "lock", "boot")}
        claim = Claim(
            **texts,
            pid=int(values["pid"]),
            uptime_s=float(values["uptime_s"]),
            lease_s=float(values["lease_s"]),
            until_s=float(values.get("until_s", 0.0)),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    longest_s = MAX_RESERVATION_S if claim.is_reservation else MAX_LEASE_S
    is_possible = 0 < claim.lease_s <= longest_s and claim.uptime_s >= 0 and 0 <= claim.until_s < math.inf
    return claim if is_possible else None


def _seconds(text: str) -> float:
    """Parses a number of seconds; 0 for anything else."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < 1e10 else 0.0
