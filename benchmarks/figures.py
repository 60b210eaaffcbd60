"""What a benchmark run found, as it is written to JSON. Seconds and milliseconds are wall time unless they say else."""

from __future__ import annotations

from farm.rows.latency import Latency
from farm.rows.record import Record
from farm.rows.status import Status
from runtime.statistics.ratios import Ratio

ONNX_RUNTIME = "ONNX Runtime"


class Interval(Record):
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, ratio: Ratio) -> Interval:
        return cls(value=ratio.value, low=ratio.low, high=ratio.high)


class Entrant(Record):
    """One way to run a model. `to_onnxruntime` is its median latency over ONNX Runtime's, measured in turns with it."""

    name: str
    status: Status = Status.OK
    reason: str = ""
    latency_ms: Latency | None = None
    to_onnxruntime: Interval | None = None


class Tuning(Record):
    """One call of `farm tune`."""

    level: str
    status: Status
    reason: str = ""
    device_s: float
    wall_s: float
    trials: int
    launches: int
    launches_tuned: int
    gain_percent: Interval | None = None


class Start(Record):
    """Time from starting a process to the first result in a file; `built`: programs that it had to build."""

    seconds: tuple[float, ...]
    built: int


class ColdStart(Record):
    """Starts with an empty cache of the driver: tuned, and tuned with compiled kernels."""

    tuned: Start
    compiled: Start
    onnxruntime_s: float


class Run(Record):
    """One model on one driver. `failures` says, stage by stage, what could not be measured and why."""

    model: str
    driver: str
    entrants: tuple[Entrant, ...] = ()
    tunings: tuple[Tuning, ...] = ()
    cold_start: ColdStart | None = None
    failures: tuple[str, ...] = ()

    def entrant(self, name: str) -> Entrant | None:
        return next((each for each in self.entrants if each.name == name), None)


class Driver(Record):
    """An OpenCL driver, in its own words."""

    origin: str
    name: str
    version: str
    device: str


class Machine(Record):
    """What the figures were measured on."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    versions: dict[str, str]


class Report(Record):
    """All figures of one call. `others_cores`: how many cores, on average, other work kept busy meanwhile."""

    command: str
    date: str
    machine: Machine
    drivers: tuple[Driver, ...]
    missing_drivers: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    light: tuple[Run, ...] = ()
    failures: tuple[str, ...] = ()
    wall_s: float
    others_cores: float
