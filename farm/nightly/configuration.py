"""Reads nightly.yml: which models are measured on which units, how, how often, and who is notified.

    name: lab                             # of the series; default: the file's name
    models: [zoo://mobilenet_v1, net.yml] # samples, deployment files and model files, from this folder
    units:                                # any of these; the keys of one entry narrow it down
      - soc: sdm845
      - {tag: quiet, one_per_soc: yes}
    runtimes: [gpu]                       # of those that the deployment files name; default: all
    engine: [farmrt, onnxruntime]         # what runs the models; default: what the deployment files say, farmrt
    settings:                             # default: one, called `default`
      default: {}
      untuned: {tuned: none, kernels: none, selection: none}
      images: {memory: image}
      big: {cpu_affinity_policy: big_only, num_threads: 2}    # and gpu_perf_hint, gpu_priority_hint: docs/running.md
    jobs: [validate, benchmark, tune_check]    # default: validate, benchmark
    repeats: 6                            # blocks of each case, half of them under the label a, half under b
    rounds: 10                            # measured rounds of a block
    warmup: 1
    most_reruns: 48                       # further blocks that a suspicion may cost
    rest_seconds: 30                      # a throttled block is measured again after so long a rest,
    most_rests: 2                         # at most so often
    budget_minutes: 240                   # for each unit; what was not begun by then is told as missing
    bundle_limit_mb: 4096                 # what bundles of earlier nights may take beside the store; 0: none, no duets
    baseline: series                      # series, last_good, or a name that `farm baseline set` gave
    seed: 1                               # of the random order; default: another one each night
    commit: ""                            # what is tested; default: the commit of the folder
    notify_command: [notify, --verdict]   # gets the verdict as JSON on standard input
    webhook: https://chat.lab/farm        # gets the same by POST
    webhook_secret_file: webhook.secret   # signs it; from this file's folder

Where `units` is missing, the units that the deployment files are for are taken.
"""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, field_validator

from farm.condition.throttling import RetryPolicy
from farm.config import samples, yaml_source
from farm.config.deployment import Runtime
from farm.config.execution import ExecutionKeys
from farm.config.fields import SafeName, Text, as_list, not_empty, split_text
from farm.config.yaml_source import KeyPath, YamlSection, YamlSource
from farm.units.selection import Selection
from runtime.errors import ConfigError

DEFAULT_SETTING = "default"
SERIES = "series"
LAST_GOOD = "last_good"

JobName = Literal["validate", "benchmark", "tune_check"]


class Selector(YamlSection):
    """Selects the units that match all given keys."""

    soc: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    device: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    tag: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    all: bool = False
    one_per_soc: bool = False

    @property
    def choice(self) -> Selection:
        """The selector as a choice among units."""
        return Selection(self.soc, self.device, self.tag, self.all, self.one_per_soc)


class Setting(ExecutionKeys):
    """How a model is loaded: `tuned`, `kernels` and `selection` are a file or `none`; without them those of the build
    folder.

    How it is executed is left to the deployment file where this does not say.
    """

    tuned: Text | None = None
    kernels: Text | None = None
    selection: Text | None = None
    memory: Literal["buffer", "image"] | None = None

    @property
    def is_for_all(self) -> bool:
        """Whether it says nothing that farmrt alone knows."""
        return not any((self.tuned, self.kernels, self.selection, self.memory))


def _web_address(value: str) -> str:
    """Requires an address; the error does not repeat it, since it may hold a secret."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("this is no web address; write https://HOST/PATH")
    return value


class NightlyConfiguration(YamlSection):
    """The content of a nightly.yml."""

    name: SafeName = ""
    models: Annotated[tuple[Text, ...], BeforeValidator(as_list), AfterValidator(not_empty)]
    units: tuple[Selector, ...] = ()
    runtimes: Annotated[tuple[Runtime, ...], BeforeValidator(as_list), AfterValidator(not_empty)] = ("cpu", "gpu")
    engine: Annotated[tuple[Text, ...], BeforeValidator(split_text), AfterValidator(not_empty)] | None = None
    settings: Annotated[dict[SafeName, Setting], AfterValidator(not_empty)] = Field(
        default_factory=lambda: {DEFAULT_SETTING: Setting()}
    )
    jobs: Annotated[tuple[JobName, ...], BeforeValidator(as_list), AfterValidator(not_empty)] = (
        "validate",
        "benchmark",
    )
    repeats: Annotated[int, Field(ge=2, le=100)] = 6
    rounds: Annotated[int, Field(ge=1, le=10_000)] = 10
    warmup: Annotated[int, Field(ge=0, le=1000)] = 1
    most_reruns: Annotated[int, Field(ge=0, le=1000)] = 48
    rest_seconds: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = 30.0
    most_rests: Annotated[int, Field(ge=0, le=100)] = 2
    budget_minutes: Annotated[float, Field(gt=0, le=7 * 24 * 60, allow_inf_nan=False)] = 240.0
    bundle_limit_mb: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 4096.0
    baseline: SafeName = SERIES
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    commit: str = ""
    notify_command: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    webhook: Annotated[str, AfterValidator(_web_address)] = ""
    webhook_secret_file: Text | None = None
    _source: YamlSource = PrivateAttr()

    @field_validator("repeats")
    @classmethod
    def _both_labels_alike(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} blocks cannot be half a and half b; write an even number")
        return value

    @property
    def path(self) -> Path:
        """The file that was read."""
        return self._source.path

    @property
    def data(self) -> dict[str, Any]:
        """The file's content as plain data."""
        content: dict[str, Any] = self._source.data
        return content

    @property
    def title(self) -> str:
        """The name of its runs in the store."""
        return self.name or self.path.stem

    @property
    def model_files(self) -> list[Path]:
        """The deployment files."""
        return [samples.deployment_file(name, self.path.parent) for name in self.models]

    @property
    def secret_file(self) -> Path | None:
        """The file with the webhook's secret."""
        return self.path.parent / self.webhook_secret_file if self.webhook_secret_file else None

    @property
    def rest(self) -> RetryPolicy:
        """How often and how long a throttled unit may rest."""
        return RetryPolicy(self.most_rests, self.rest_seconds)

    def error(self, key_path: KeyPath, problem: str) -> ConfigError:
        """Makes the error `file:line: key: problem`."""
        return self._source.error(key_path, problem)


def load(path: Path) -> NightlyConfiguration:
    """Reads and checks a file; raises ConfigError with the line of the first mistake."""
    source = yaml_source.load(path)
    nightly = source.validate(NightlyConfiguration)
    nightly._source = source
    return nightly
