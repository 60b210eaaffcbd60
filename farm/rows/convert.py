"""Rows of `farm convert`: the files that were made of a model."""

import dataclasses

from farm.rows.inspect import InspectedTensor
from farm.rows.record import Record
from farm.rows.result import Result
from farm.rows.row import Row
from farm.rows.run import NoFile, SelectionUse


class PassChanges(Record):
    """What one pass changed, a line each."""

    name: str
    changes: tuple[str, ...]


class GraphFigures(Record):
    """The converted graph of a model."""

    operators_before: int | None = None
    operators_after: int | None = None
    passes: tuple[PassChanges, ...] = ()
    graph_file: str = ""


class PlanFigures(Record):
    """The plan of a model for one ABI, SoC and runtime: its files, and the sizes that matter.

    `facts` is where that which is known of the SoC comes from: `unit` (it was asked), `file` (--target-file), `stored`
    (a unit of it was asked once), `shipped` (farm's own table), `none` (a plan for the runtime cpu needs nothing).
    `tensors` are those of the plan where they were asked for (--explain). `selection` is the kept choice that the plan
    is made by.
    """

    abi: str = ""
    facts: str = ""
    plan_file: str = ""
    data_file: str = ""
    code_files: tuple[str, ...] = ()
    steps: int | None = None
    macs: int | None = None
    weights_bytes: int | None = None
    tensors: tuple[InspectedTensor, ...] = ()
    selection: SelectionUse | NoFile = NoFile()


class ConvertRow(PlanFigures, GraphFigures, Row):
    """What one model was converted to, for one unit, or one ABI and SoC without one, and runtime."""

    job: str = "convert"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertResult(Result[ConvertRow]):
    """What `farm convert` makes of a model."""

    graph: GraphFigures
    plan: PlanFigures = dataclasses.field(default_factory=PlanFigures)
