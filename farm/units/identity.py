"""Which piece of hardware a unit is: told apart from others of its model, without telling its serial number."""

from __future__ import annotations

import hashlib

from farm.transport.base import Transport

DEADLINE_S = 20.0
MAX_BYTES = 4096
# The first that says something counts: a phone's serial, a board's, a machine's, an installation's.
SCRIPT = r"""
if command -v getprop >/dev/null; then getprop ro.serialno; fi
for file in /proc/device-tree/serial-number /sys/class/dmi/id/product_uuid /etc/machine-id; do
  if [ -r "$file" ]; then cat "$file"; echo; fi
done
exit 0
"""


def read_identity(transport: Transport) -> str:
    """Twelve hexadecimal digits, the same each time; empty where the unit says nothing. Raises JobError."""
    output = transport.run(["sh", "-c", SCRIPT], DEADLINE_S).stdout[:MAX_BYTES]
    serials = [line.strip(b" \t\r\0") for line in output.split(b"\n")]
    first = next(filter(None, serials), b"")
    return hashlib.sha256(first).hexdigest()[:12] if first else ""
