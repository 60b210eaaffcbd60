"""The tables of a store, layout 2; docs/store.md tells what they hold. A change of them is a new layout.

JSON is kept as text (PostgreSQL's `json`, not `jsonb`, which turns 1e22 into an integer and -0.0 into 0, refuses NUL,
and so would not give back what was measured). Texts of devices stand exactly in the JSON; the columns beside it hold
them as they are shown and searched for.
"""

from sqlalchemy import JSON, Column, ForeignKey, Index, Integer, MetaData, Table, Text

LAYOUT = 2

metadata = MetaData()

layouts = Table("farm_layout", metadata, Column("version_num", Text, primary_key=True))  # one record: `LAYOUT`


def _of_run(primary: bool = False) -> Column[int]:
    return Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, primary_key=primary)


runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("uid", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("started", Text, nullable=False),
    Column("ended", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("commit", Text, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("process", Text, nullable=False),  # which process works on it; see process.py
    Index("runs_by_name", "name", "id"),
    sqlite_autoincrement=True,  # an id is never given twice: series are in the order of runs
)

rows = Table(
    "rows",
    metadata,
    Column("id", Integer, primary_key=True),
    _of_run(),
    Column("digest", Text, nullable=False, unique=True),  # of the run and the row: the same row is kept once
    Column("job", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("soc", Text, nullable=False),
    Column("library", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("runtime", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("settings_hash", Text, nullable=False),
    Column("fingerprint_hash", Text, nullable=False),
    Column("row", JSON, nullable=False),
    Index("rows_by_run", "run_id", "id"),
    Index("rows_by_unit", "unit", "model"),
    Index("rows_by_time", "time"),
    sqlite_autoincrement=True,
)

series = Table(
    "series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),  # of the key
    Column("key", JSON, nullable=False),  # [unit, library, model, runtime, setting, engine if not farmrt, metric]
)

points = Table(
    "points",
    metadata,
    Column("series_id", ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
    _of_run(primary=True),
    Column("point", JSON, nullable=False),
    Index("points_by_run", "run_id"),
    sqlite_with_rowid=False,  # points of a series lie side by side
)

progress = Table(
    "progress",
    metadata,
    Column("id", Integer, primary_key=True),
    _of_run(),
    Column("key", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Index("progress_by_run", "run_id", "id"),
)

baselines = Table(
    "baselines",
    metadata,
    Column("name", Text, primary_key=True),
    Column("run_id", ForeignKey("runs.id"), nullable=False),
)
