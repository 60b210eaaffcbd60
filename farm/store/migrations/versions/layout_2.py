"""Layout 2: series with their points, baselines, and the progress of nightly runs."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def _run_id(primary_key: bool = False) -> sa.Column[int]:
    return sa.Column(
        "run_id", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, primary_key=primary_key
    )


def upgrade() -> None:
    """Makes the tables; the points are derived from the rows afterwards (farm.store.migrate)."""
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("key", sa.JSON, nullable=False),
    )
    op.create_table(
        "points",
        sa.Column("series_id", sa.Integer, sa.ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
        _run_id(primary_key=True),
        sa.Column("point", sa.JSON, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("points_by_run", "points", ["run_id"])
    op.create_table(
        "progress",
        sa.Column("id", sa.Integer, primary_key=True),
        _run_id(),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_index("progress_by_run", "progress", ["run_id", "id"])
    op.create_table(
        "baselines",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id"), nullable=False),
    )
