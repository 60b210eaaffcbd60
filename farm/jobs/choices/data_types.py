"""What is told of the data types of a choice, where the deployment file allows several."""

from __future__ import annotations

from collections.abc import Mapping

from farm.jobs.models.prepare import data_types
from runtime.selection.selection import GraphSelection
from runtime.types import Precisions


def chosen_data_type(precisions: Precisions, selection: GraphSelection) -> str:
    """The data type of a choice among precisions: those that its operators have."""
    return data_types(selection.choice.precisions or precisions)


def ms_by_data_type(found: Mapping[Precisions, GraphSelection]) -> dict[str, float]:
    """The predicted time of the cheapest choice in each data type, in the order given.

    Where the cheapest choice among all precisions has one of them throughout, it is that of this data type.
    """
    told: dict[str, float] = {}
    for precisions, selection in found.items():
        told.setdefault(chosen_data_type(precisions, selection), selection.milliseconds)
    return told
