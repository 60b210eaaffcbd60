"""A SoC's journal as a search opens it: the file of this folder, with the trials of others where a folder is shared."""

from collections.abc import Mapping
from pathlib import Path

from farm.workspace import journal_file
from tuner.journal import HEADER_LINE, Journal
from tuner.shared_journal import SharedJournal


def opened_journal(
    soc: str, fingerprint: str, provenance: Mapping[str, str], fresh: bool, shared: Path | None
) -> Journal:
    """See Journal; `shared` is the folder in which others are followed."""
    followed = SharedJournal(shared, soc, HEADER_LINE) if shared else None
    return Journal(journal_file(soc), fingerprint, dict(provenance), fresh, followed)
