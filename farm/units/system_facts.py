"""Reads which system a unit runs, so that an update of it can be named when its times have moved."""

from farm import safe_text
from farm.transport.base import Transport

DEADLINE_S = 20.0
MAX_OUTPUT_BYTES = 65_536
SCRIPT = r"""
if command -v getprop >/dev/null; then
  echo "android=$(getprop ro.build.version.release)"
  echo "build=$(getprop ro.build.fingerprint)"
  echo "security patch=$(getprop ro.build.version.security_patch)"
elif [ -r /etc/os-release ]; then
  echo "system=$(. /etc/os-release; echo "$PRETTY_NAME")"
fi
echo "kernel=$(uname -r)"
exit 0
"""
NAMES = ("android", "build", "security patch", "system", "kernel")


def read_system(transport: Transport) -> dict[str, str]:
    """What the unit says of its system, by name; what it does not tell is not there. Raises JobError."""
    output = transport.run(["sh", "-c", SCRIPT], DEADLINE_S).stdout[:MAX_OUTPUT_BYTES].decode(errors="replace")
    said = (line.partition("=") for line in output.splitlines())
    return {name: safe_text.word(value) for name, _, value in said if name in NAMES and value.strip()}
