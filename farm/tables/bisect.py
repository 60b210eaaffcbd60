"""What a bisection has found, in words and as a table."""

from collections.abc import Sequence

from farm.decision.bisection import Change
from farm.rows.compare import OperatorDifference
from farm.tables.table import Table, milliseconds

COLUMNS = ("Operator", "Type", "Before(ms)", "After(ms)", "Difference(ms)", "95 % interval")
LEFT = frozenset({"Operator", "Type"})


def change_text(change: Change) -> str:
    """`+9.8 % (+7.9 to +11.6)`."""
    percent, low, high = (100 * (value - 1) for value in (change.ratio, change.low, change.high))
    return f"{percent:+.1f} % ({low:+.1f} to {high:+.1f})"


def operators_table(operators: Sequence[OperatorDifference]) -> Table:
    """The operators that differ, the largest difference first."""
    return Table("Operators that differ", COLUMNS, [_cells(each) for each in operators], LEFT)


def _cells(each: OperatorDifference) -> list[str]:
    known = each.low_ms is not None and each.high_ms is not None
    interval = f"{each.low_ms:+.3f} to {each.high_ms:+.3f}" if known else "new" if each.a_ms is None else "gone"
    return [
        each.name,
        each.type,
        milliseconds(each.a_ms),
        milliseconds(each.b_ms),
        f"{each.difference_ms:+.3f}",
        interval,
    ]
