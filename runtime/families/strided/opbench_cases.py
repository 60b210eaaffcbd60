"""The size to measure of an IndexedRead: a table of words."""

from __future__ import annotations

from runtime.operators.case import OperatorCase
from runtime.semantics.generic_forms import gather_form

_TABLE, _WORDS = (4096, 512), (1, 128)
OPBENCH_CASES = (
    OperatorCase(
        "IndexedRead_4096x512", "IndexedRead", (_TABLE, _WORDS), attrs=gather_form(_TABLE, _WORDS, 0), integers=(1,)
    ),
)
