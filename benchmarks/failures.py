"""Records the failures of a benchmark's stages as lines of the report, so that the other stages go on."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator

from runtime.errors import FarmError


class Failures:
    """The failures so far, a line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextlib.contextmanager
    def recorded(self, stage: str) -> Iterator[None]:
        """Ends the block at an error and keeps its reason. One that is no FarmError is a mistake of ours: it is kept as
        well, since the other figures of a long run are still good, and its traceback is printed.
        """
        try:
            yield
        except FarmError as error:
            self.lines.append(f"{stage}: {one_line(str(error))}")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self.lines.append(f"{stage}: {type(error).__name__}: {one_line(str(error))}")


def one_line(text: str) -> str:
    return " ".join(text.split())
