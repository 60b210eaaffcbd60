"""Rows of `farm inspect`: the operators and tensors of a plan, each tensor with its origin and its storage."""

import dataclasses

from farm.rows.forecast import PlannedOperator
from farm.rows.record import Record
from farm.rows.result import Result
from farm.rows.row import Row
from farm.rows.run import NoFile, SelectionUse


class InspectedTensor(Record):
    """A tensor in one storage.

    Shapes are those of the origin, as the user sees the tensor, and of the memory, padding included; an image's is
    height, width, 4. `part_of` names the tensor whose memory it lies in, `written_by` and `read_by` count operators
    from 0. `quantization` is what its elements stand for where that is known: integers, scale, zero point, axis.
    """

    name: str
    kind: str
    element_type: str
    memory: str
    origin_format: str
    origin_shape: tuple[int, ...]
    storage_format: str
    storage_shape: tuple[int, ...]
    size_bytes: int
    padding_bytes: int
    part_of: str
    written_by: tuple[int, ...]
    read_by: tuple[int, ...]
    quantization: str = ""


class StorageConversion(Record):
    """An operator that only changes how tensors lie in memory; formats are empty where a plan file does not tell."""

    operator: int
    name: str
    source_format: str
    target_format: str


class InspectFigures(Record):
    """What a plan holds: its operators in order, every tensor in every storage, and the conversions among them.

    `selection` is the kept choice that the plan is made by, `is_tuned_for_cpu` whether it is the one that tuning chose
    for the runtime cpu.
    """

    operators: tuple[PlannedOperator, ...] = ()
    tensors: tuple[InspectedTensor, ...] = ()
    conversions: tuple[StorageConversion, ...] = ()
    weights_bytes: int | None = None
    activations_peak_bytes: int | None = None
    padding_bytes: int | None = None
    selection: SelectionUse | NoFile = NoFile()
    is_tuned_for_cpu: bool = False


class InspectRow(InspectFigures, Row):
    """What one model's plan for one unit holds, or one plan file."""

    job: str = "inspect"


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectResult(Result[InspectRow]):
    """What `farm inspect` shows of a plan."""

    figures: InspectFigures
