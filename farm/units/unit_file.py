"""Files of what is known of one device, `build/units/<unit>/<name>`: nothing in them holds for another one."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from farm import atomic_file
from farm.config.inventory import Unit
from farm.lease import host_lock
from farm.rows.record import Record

FOLDER = Path("build/units")


class UnitRecord(Record):
    """What such a file holds; `identity` is the device's host_lock.connection_key."""

    identity: str


Content = TypeVar("Content", bound=UnitRecord)


@dataclasses.dataclass(frozen=True)
class RecordFile(Generic[Content]):
    """A kind of such files; larger ones than `max_bytes` are damaged."""

    name: str
    kind: type[Content]
    max_bytes: int

    def path(self, unit: Unit, folder: Path) -> Path:
        """Where a unit's is."""
        return folder / unit.name / self.name

    def read(self, unit: Unit, folder: Path) -> Content | None:
        """None where the file is missing, damaged, or of another device."""
        with contextlib.suppress(OSError, ValidationError):
            with self.path(unit, folder).open("rb") as file:
                found = self.kind.model_validate_json(file.read(self.max_bytes))
            if found.identity == host_lock.connection_key(unit):
                return found
        return None

    def write(self, unit: Unit, content: Content, folder: Path) -> None:
        """Replaces the file; raises FarmError where it cannot be written."""
        atomic_file.write(self.path(unit, folder), content.model_dump_json(indent=1).encode())
