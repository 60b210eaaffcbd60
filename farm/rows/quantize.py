"""Rows of `farm quantize`: the quantised model of a float one, and what it lost, layer by layer."""

import dataclasses

from farm.rows.record import Figure, Record
from farm.rows.result import Result
from farm.rows.row import Row


class QuantizedLayer(Record):
    """A layer, and the range of what it computes; signal to noise in decibels, null where nothing was measured.

    `in_float` says why it stays in float; empty: it is quantised. `clipped_percent` is the share of its values beyond
    the range. `alone_db` is of the model's worst output where this layer alone is quantised, `before_db` of the layer's
    own values where every layer is, `after_db` in the model as it was written. `rounding_db` is by how much adaptive
    rounding of the weights lowers the noise of its outputs. `histogram` counts the values in equal parts from `lowest`
    to `highest`.
    """

    name: str
    op: str
    in_float: str = ""
    low: Figure = None
    high: Figure = None
    lowest: Figure = None
    highest: Figure = None
    clipped_percent: Figure = None
    alone_db: Figure = None
    before_db: Figure = None
    after_db: Figure = None
    rounding_db: Figure = None
    histogram: tuple[int, ...] = ()


class UnitSpeed(Record):
    """Medians of rounds of the float model and of the quantised one, in turns on a unit; `reason`: why there are none.

    `over_float` is the median of the turns' ratios.
    """

    unit: str
    runtime: str
    float_ms: Figure = None
    ms: Figure = None
    over_float: Figure = None
    reason: str = ""


class QuantizeFigures(Record):
    """The quantised model. Its figures compare it with the float one: null where there was nothing to measure with.

    `before_db` is the worst output's signal to noise where every layer is quantised, `after_db` in the model as it was
    written; `agreement_percent` the share of samples (of pixels, of an image) whose largest channel stayed.
    `notes` name the layers of which many values are clipped.
    """

    file: str = ""
    ranges_file: str = ""
    samples: int = 0
    judged: int = 0
    float_bytes: int | None = None
    quantized_bytes: int | None = None
    before_db: Figure = None
    after_db: Figure = None
    agreement_percent: Figure = None
    layers: tuple[QuantizedLayer, ...] = ()
    notes: tuple[str, ...] = ()
    speeds: tuple[UnitSpeed, ...] = ()


class QuantizeRow(QuantizeFigures, Row):
    """What one model became in eight bits."""

    job: str = "quantize"


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuantizeResult(Result[QuantizeRow]):
    """What `farm quantize` makes of a model."""

    figures: QuantizeFigures = dataclasses.field(default_factory=QuantizeFigures)
