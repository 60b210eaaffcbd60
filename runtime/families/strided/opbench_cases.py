"""The sizes to measure: an IndexedRead of a table of words, and the greater of two scores of attention."""

from __future__ import annotations

from runtime.operators.case import OperatorCase
from runtime.semantics.generic_forms import gather_form

_TABLE, _WORDS = (4096, 512), (1, 128)
_SCORES = (1, 8, 128, 128)
OPBENCH_CASES = (
    OperatorCase(
        "IndexedRead_4096x512", "IndexedRead", (_TABLE, _WORDS), attrs=gather_form(_TABLE, _WORDS, 0), integers=(1,)
    ),
    OperatorCase(
        "Elementwise_1x8x128x128",
        "Elementwise",
        (_SCORES, _SCORES),
        attrs={"function": "max", "dtype": "float32", "alpha": 0.0, "beta": 0.0},
    ),
)
