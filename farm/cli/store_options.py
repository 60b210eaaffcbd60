"""The option that names the store, of every command that keeps or reads rows."""

from __future__ import annotations

import click

store_option = click.option(
    "--store",
    metavar="URL",
    help="Where runs and rows are kept: a path, or postgresql://USER@HOST/DATABASE.  [default: reports/farm.db]",
)
