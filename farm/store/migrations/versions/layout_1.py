"""Layout 1: runs, and what reports/rows.jsonl held."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("ended", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("commit", sa.Text, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("runs_by_name", "runs", ["name", "id"])
    texts = ("job", "time", "unit", "soc", "library", "model", "runtime", "status", "settings_hash", "fingerprint_hash")
    op.create_table(
        "rows",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Integer, sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        sa.Column("row", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("rows_by_run", "rows", ["run_id", "id"])
    op.create_index("rows_by_unit", "rows", ["unit", "model"])
    op.create_index("rows_by_time", "rows", ["time"])
