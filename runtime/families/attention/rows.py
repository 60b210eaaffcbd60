"""Rows of scaled dot-product attention."""

from __future__ import annotations

from runtime.families.attention.geometry import ATTRIBUTES, attention_shape
from runtime.operators.row import SOURCE, Operator

OPERATORS = {"Attention": Operator((3, 4), attention_shape, ATTRIBUTES, format=SOURCE)}
