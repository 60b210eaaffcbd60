"""Where files lie: the build folder on this machine, and the unit's folder.

    build/<library>/model/<model>.onnx                  the converted graph
    build/<library>/model/<abi>/<model>.<soc>.<runtime>.plan  and .data
    build/<library>/code/<abi>/<model>.<soc>.<runtime>.c  and .h, lib<model>.<soc>.<runtime>.a
    build/<library>/opencl/<abi>/<library>_tuned_opencl_parameter.<device model>.<soc>.bin
    build/<library>/opencl/<abi>/<library>_compiled_opencl_kernel.<device model>.<soc>.bin
    build/<library>/opencl/<abi>/<library>_selection.<device model>.<soc>.json
    build/<library>/opencl/<abi>/<...>.bin.refused       compiled kernels that failed when they were tried
    build/<library>/opencl/<abi>/manifest.json
    build/<library>/cpu/<abi>/<model>.<device model>.<soc>.json   how tuning executes a model on the CPU
    build/<library>/quantized/<model>.onnx, .ranges and .npz     what farm quantize makes, and counts between calls
    build/<library>/quantized/<model>.within.onnx, .all.onnx and .times.json  of `quantize_within`: the model that runs,
        with all layers in eight bits, and what farm tune timed
    build/tuning/<soc>.jsonl                             every trial of a SoC

On the unit, files lie in the store of farm.farmrt.unit_file_store. Tensors travel as numbered files, since their names
may hold any character.
"""

import dataclasses
import re
from pathlib import Path

BUILD_FOLDER = Path("build")
TUNING_RESULTS = ("build/*/opencl/*/*", "build/*/cpu/*/*.json", "build/tuning/*.jsonl")  # what other hosts can use


@dataclasses.dataclass(frozen=True)
class Workspace:
    """The files of one library."""

    library: str
    build_folder: Path = BUILD_FOLDER

    @property
    def folder(self) -> Path:
        """All files of the library."""
        return self.build_folder / self.library

    def graph_file(self, model: str) -> Path:
        """The converted graph as ONNX."""
        return self.folder / "model" / f"{model}.onnx"

    def quantized_file(self, model: str) -> Path:
        """The quantised model as ONNX."""
        return self.folder / "quantized" / f"{model}.onnx"

    def plan_file(self, model: str, abi: str, soc: str, runtime: str) -> Path:
        """The plan of a model for a SoC and runtime; its weights lie beside it, see `data_file`."""
        return self.folder / "model" / abi / f"{model}.{soc}.{runtime}.plan"

    def code_folder(self, abi: str) -> Path:
        """Plans as C source and static libraries, each named as its plan."""
        return self.folder / "code" / abi

    def artifacts_folder(self, abi: str) -> Path:
        """Tuned parameters, compiled kernels and their manifest."""
        return self.folder / "opencl" / abi

    def tuned_file(self, abi: str, device_model: str, soc: str) -> Path:
        """Tuned parameters of a SoC."""
        return self._artifact("tuned_opencl_parameter", abi, device_model, soc)

    def kernels_file(self, abi: str, device_model: str, soc: str) -> Path:
        """Compiled kernels of a SoC."""
        return self._artifact("compiled_opencl_kernel", abi, device_model, soc)

    def cpu_choice_file(self, model: str, abi: str, device_model: str, soc: str) -> Path:
        """How a model is executed on the CPU of a SoC, as tuning chose."""
        return self.folder / "cpu" / abi / f"{model}.{file_part(device_model)}.{soc}.json"

    def cpu_choice_files(self, model: str, abi: str, soc: str) -> list[Path]:
        """The same of all device models."""
        return sorted((self.folder / "cpu" / abi).glob(f"{model}.*.{soc}.json"))

    def selection_file(self, abi: str, device_model: str, soc: str) -> Path:
        """Kept choices of a SoC."""
        return self._artifact("selection", abi, device_model, soc, "json")

    def selection_files(self, abi: str, soc: str) -> list[Path]:
        """Kept choices of a SoC, of all device models."""
        return sorted(self.artifacts_folder(abi).glob(f"{self.library}_selection.*.{soc}.json"))

    def _artifact(self, kind: str, abi: str, device_model: str, soc: str, ending: str = "bin") -> Path:
        return self.artifacts_folder(abi) / f"{self.library}_{kind}.{file_part(device_model)}.{soc}.{ending}"


TUNING = Workspace("tuning")  # trial plans and journals belong to no library


def journal_file(soc: str) -> Path:
    """Where the trials of a SoC are remembered."""
    return TUNING.folder / f"{soc}.jsonl"


def journal_files() -> list[Path]:
    """The journals of all SoCs."""
    return sorted(TUNING.folder.glob("*.jsonl"))


def data_file(plan_file: Path) -> Path:
    """The weights of a plan."""
    return plan_file.with_suffix(".data")


def operators_file(plan_file: Path) -> Path:
    """The library of custom CPU operators that a plan needs; most need none."""
    return plan_file.with_suffix(".operators.so")


def refused_file(kernels_file: Path) -> Path:
    """Where compiled kernels lie that a driver did not survive, or that computed something else."""
    return kernels_file.with_name(f"{kernels_file.name}.refused")


def file_part(text: str) -> str:
    """A device's model name as part of a file name: blanks go, other odd characters become `_`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", "".join(text.split())) or "unknown"
