"""Histograms of a model's tensors over samples, kept as they grow: an interrupted call goes on where it was."""

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from farm import atomic_file
from farm.model.reference_process import ReferenceProcess
from farm.quantization.histogram import Histogram

Array = npt.NDArray[Any]
Inputs = Mapping[str, Array]

KEPT_EVERY_S = 10.0
FIGURES = ("limit", "lowest", "highest", "exact_zeros", "not_finite")


class Calibration:
    """The histograms of some tensors of a model, and which samples they are of.

    Args:
        file: where they are kept between calls; what another model or other tensors left there is begun anew.
    """

    def __init__(self, process: ReferenceProcess, model: onnx.ModelProto, tensors: Sequence[str], file: Path) -> None:
        self._process, self._file = process, file
        exposed = onnx.ModelProto()
        exposed.CopyFrom(model)
        del exposed.graph.output[:]
        inputs = {value.name for value in model.graph.input}
        exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors if name not in inputs)
        self._model = exposed.SerializeToString()
        self._key = hashlib.sha256(self._model + repr([*tensors]).encode()).hexdigest()
        self.histograms = {name: Histogram() for name in tensors}
        self._done: list[str] = []

    def run(self, samples: Mapping[str, Callable[[], Inputs]], tell: Callable[[int], None]) -> None:
        """Counts the samples, by keys of their contents, that are not counted yet; tells how many are done."""
        if not self._restored(set(samples)):
            self.histograms, self._done = {name: Histogram() for name in self.histograms}, []
        kept_s = time.monotonic()
        try:
            for key, read in samples.items():
                if key not in self._done:
                    tell(len(self._done))
                    self._count(read())
                    self._done.append(key)
                if time.monotonic() - kept_s > KEPT_EVERY_S:
                    self._keep()
                    kept_s = time.monotonic()
        finally:
            if self._done:
                self._keep()

    def _count(self, inputs: Inputs) -> None:
        values = {**inputs, **self._process.run(self._model, inputs)}
        for name, histogram in self.histograms.items():
            histogram.add(values[name])

    def _keep(self) -> None:
        """Writes all that is known; a sample is counted as a whole, or its key is not among those that are done."""
        head = json.dumps({"key": self._key, "done": self._done})
        figures = [[getattr(each, name) for name in FIGURES] for each in self.histograms.values()]
        counts = np.stack([each.counts for each in self.histograms.values()])
        content = io.BytesIO()
        np.savez_compressed(content, head=np.array(head), figures=np.array(figures), counts=counts)
        atomic_file.write(self._file, content.getvalue())

    def _restored(self, keys: set[str]) -> bool:
        """Takes what is kept, where it is of this model and of no other samples than those of these keys."""
        try:
            with np.load(self._file, allow_pickle=False) as kept:
                head = json.loads(str(kept["head"]))
                if head["key"] != self._key or not keys.issuperset(head["done"]):
                    return False
                for histogram, figures, counts in zip(
                    self.histograms.values(), kept["figures"], kept["counts"], strict=True
                ):
                    limit, lowest, highest, zeros, not_finite = figures.tolist()
                    histogram.limit, histogram.lowest, histogram.highest = limit, lowest, highest
                    histogram.exact_zeros, histogram.not_finite = int(zeros), int(not_finite)
                    histogram.counts = counts
                self._done = head["done"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return False
        return True
