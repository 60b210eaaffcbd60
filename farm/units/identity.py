"""Identifies a unit's hardware by a hash of its serial number, so that reports need not show the number itself."""

from __future__ import annotations

import hashlib

from farm.transport.base import Transport

DEADLINE_S = 20.0
MAX_BYTES = 4096
# The first that is not empty counts: a phone's serial number, a board's, a machine's, an installation's.
SCRIPT = r"""
if command -v getprop >/dev/null; then getprop ro.serialno; fi
for file in /proc/device-tree/serial-number /sys/class/dmi/id/product_uuid /etc/machine-id; do
  if [ -r "$file" ]; then cat "$file"; echo; fi
done
exit 0
"""


def read_identity(transport: Transport) -> str:
    """Returns twelve hexadecimal digits, the same each time; empty where the unit has no number. Raises JobError."""
    output = transport.run(["sh", "-c", SCRIPT], DEADLINE_S).stdout[:MAX_BYTES]
    serials = [line.strip(b" \t\r\0") for line in output.split(b"\n")]
    first = next(filter(None, serials), b"")
    return hashlib.sha256(first).hexdigest()[:12] if first else ""
