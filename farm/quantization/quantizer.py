"""Quantises one model: ranges over samples, what each layer loses, and which layers stay in float."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from farm import atomic_file
from farm.config.deployment import Input
from farm.config.platforms import DataFormat
from farm.config.suggestion import suggestion
from farm.model.boundary import channel_axis
from farm.model.reference_process import ReferenceProcess
from farm.model.sample_folder import Sample, find_samples, read_sample
from farm.quantization import layers as model_layers
from farm.quantization import qdq, range_file
from farm.quantization.bias import bias_errors, with_biases
from farm.quantization.calibration import Calibration
from farm.quantization.cheapest import LayerTimes, cheapest_in_float
from farm.quantization.equalization import equalized, pairs_of
from farm.quantization.histogram import Histogram
from farm.quantization.judge import NO_BUDGET, Fidelity, LossBudget, fewest_in_float, fidelity, power_of, sqnr_by_tensor
from farm.quantization.layers import LayerNodes
from farm.quantization.methods import METHODS, Range, chosen_range
from farm.quantization.rounding import AdaptiveRounding, RoundedWeight, with_integers
from farm.quantization.switches import SwitchedModel
from farm.rows.quantize import QuantizedLayer, QuantizeFigures
from runtime.errors import ConfigError, JobError, ModelError

Array = npt.NDArray[Any]
Inputs = dict[str, Array]
Tell = Callable[[str], None]

MOST_JUDGED = 32  # samples that outputs are compared on
MOST_ALONE, MOST_TRIALS = 4, 100  # samples that each layer is tried alone on, at most so many runs or one a layer
MOST_CLIPPED = 0.01
FAITHFUL_DB = 20.0  # noise of a tenth of an output
ADAPTIVE = "adaptive"
ROUNDINGS = ("nearest", ADAPTIVE)
BARS = 48


@dataclasses.dataclass(frozen=True)
class QuantizeOptions:
    """What `farm quantize` is asked for.

    Attributes:
        data: the folder of samples; None where ranges are known, or none are needed: nothing is measured then.
        method: how ranges are chosen (farm/quantization/methods.py).
        per_channel: a scale for each channel of a weight, instead of one for all of it.
        reduce_range: weights in seven bits.
        weights_only: `int8` or `int4`: activations stay floats; empty: they do not.
        keep: names of layers that stay in float.
        equalize: weights of neighbouring layers share their channels' ranges (farm/quantization/equalization.py).
        correct_bias: biases take away the mean error of their weights, as the samples show it.
        rounding: `nearest`, or `adaptive`: weights up or down, as a layer's outputs over the samples are closest.
        ranges: a file of ranges in MACE's form, instead of those that samples show.
        output: the file to write; None: below build/.
    """

    data: Path | None = None
    method: str = "minmax"
    per_channel: bool = False
    reduce_range: bool = False
    weights_only: str = ""
    keep: tuple[str, ...] = ()
    equalize: bool = False
    correct_bias: bool = False
    rounding: str = "nearest"
    budget: LossBudget = NO_BUDGET
    ranges: Path | None = None
    output: Path | None = None

    def check(self) -> None:
        """Raises ConfigError where an option is none, or options do not go together."""
        if self.method not in METHODS:
            raise ConfigError(f"method {self.method!r}: there is no such{suggestion(self.method, METHODS)}")
        if self.weights_only and self.weights_only not in qdq.LARGEST:
            raise ConfigError(f"weights_only {self.weights_only!r}: write {' or '.join(qdq.LARGEST)}")
        if self.data is None and not (self.ranges or self.weights_only):
            raise ConfigError("--data DIR is needed: the samples whose values show each tensor's range")
        if self.data is None and self.budget.is_set:
            raise ConfigError("a budget needs --data DIR: the samples that it is measured on")
        if self.data is None and self.correct_bias:
            raise ConfigError("--correct-bias needs --data DIR: the samples that errors are measured on")
        if self.rounding not in ROUNDINGS:
            raise ConfigError(f"rounding {self.rounding!r}: there is no such{suggestion(self.rounding, ROUNDINGS)}")
        if self.data is None and self.rounding == ADAPTIVE:
            raise ConfigError("--rounding adaptive needs --data DIR: the samples that outputs are compared on")
        if self.ranges and self.equalize:
            raise ConfigError(f"{self.ranges}: --equalize changes what layers compute, so ranges of it no longer hold")
        if self.reduce_range and self.weights_only:
            raise ConfigError("--reduce-range is for products of bytes, which --weights-only leaves in float")
        if self.ranges and self.weights_only:
            raise ConfigError("--ranges are of activations, which --weights-only leaves in float: give one of them")


@dataclasses.dataclass(frozen=True)
class FloatModel:
    """A model that is to be quantised.

    Attributes:
        where: the deployment file, with which errors begin.
        model: of ONNX's own operators, its weights inside.
        formats, ranks: of its outputs, by name.
        file: where it is written below build/; beside it lies what is kept between calls.
        asks: the option or key that names the folder of samples.
    """

    where: Path
    name: str
    model: onnx.ModelProto
    inputs: Sequence[Input]
    formats: Mapping[str, DataFormat]
    ranks: Mapping[str, int]
    file: Path
    asks: str


@dataclasses.dataclass(frozen=True)
class _Measured:
    """What samples said of the layers, by their names."""

    alone_db: Mapping[str, float] = dataclasses.field(default_factory=dict)
    before_db: Mapping[str, float] = dataclasses.field(default_factory=dict)
    after_db: Mapping[str, float] = dataclasses.field(default_factory=dict)
    before: Fidelity | None = None
    after: Fidelity | None = None


class Quantizer:
    """One model on its way to eight bits; with `times` the fastest one within the budget, else that of most layers."""

    def __init__(
        self, source: FloatModel, options: QuantizeOptions, tell: Tell, times: LayerTimes | None = None
    ) -> None:
        self._source, self._options, self._times = source, options, times
        self._tell: Tell = lambda text: tell(f"{source.name}: {text}")
        self._process = ReferenceProcess(is_exact=True)
        self._samples = find_samples(options.data, source.inputs, source.asks) if options.data else ()
        self._refuse_constant_samples()
        opset = model_layers.INT4_OPSET if options.weights_only == "int4" else model_layers.LEAST_OPSET
        self._model = model_layers.float_model(source.model, self._process, opset)
        where = f"{source.where}: {source.name}"
        if options.equalize:
            if not any(pairs_of(self._model)):
                raise ModelError(
                    f"{where}: --equalize: no two layers have nothing or a ReLU between them, leave it out"
                )
            self._model = equalized(self._model)
        operators = model_layers.WEIGHTED if options.weights_only else model_layers.OPERATORS
        self._layers = model_layers.layers_of(self._model, operators)
        if not self._layers:
            raise ModelError(f"{where}: no layer can be quantised")
        self._in_float = dict.fromkeys(
            model_layers.named_layers(self._layers, self._model, options.keep), "kept by --keep"
        )
        self._bias_errors: dict[str, Array] = {}
        self._rounded: Mapping[str, RoundedWeight] = {}
        self._made: tuple[object, onnx.ModelProto] | None = None
        self._file = options.output or source.file

    def figures(self) -> QuantizeFigures:
        """Writes the files; JobError where no layer can be quantised within the budget."""
        histograms = {} if self._options.weights_only else self._histograms()
        ranges = self._ranges(histograms)
        every = [layer for layer in self._layers if layer.name not in self._in_float]
        if not every:
            raise JobError("no layer is left to be quantised")
        if self._options.rounding == ADAPTIVE:
            self._rounded = self._adapted(every, ranges)
        if self._options.correct_bias:
            self._tell("biases")
            whole, judged = self._quantized(every, ranges), map(self._read, self._spread(MOST_JUDGED))
            self._bias_errors = bias_errors(self._process, self._model, whole, every, judged)
        measured = self._measured(every, ranges) if self._samples else _Measured()
        written = self._quantized(self._chosen(), ranges)
        layers = tuple(self._figures(layer, ranges, histograms, measured) for layer in self._layers)
        figures = self._write(written, ranges, layers, measured)
        notes = tuple(self._saturated(ranges, histograms)) or tuple(self._lossy(figures))
        return figures.model_copy(update={"notes": notes})

    def _histograms(self) -> dict[str, Histogram]:
        """Of all activations, where there are samples; layers whose values are not finite stay in float."""
        if not self._samples:
            return {}
        names = model_layers.activations(self._model, self._layers)
        calibration = Calibration(self._process, self._model, names, self._source.file.with_suffix(".npz"))
        keyed = {_content_key(sample): functools.partial(self._read, sample) for sample in self._samples}
        calibration.run(keyed, lambda done: self._tell(f"ranges: sample {done + 1} of {len(keyed)}"))
        for layer in self._layers:
            if any(name in names and calibration.histograms[name].not_finite for name in layer.tensors):
                self._in_float.setdefault(layer.name, "holds values that are not finite")
        return calibration.histograms

    def _ranges(self, histograms: Mapping[str, Histogram]) -> dict[str, Range]:
        """Of all activations that quantised layers read and write, from the file or by the method."""
        options = self._options
        if options.weights_only:
            return {}
        chosen = [layer for layer in self._layers if layer.name not in self._in_float]
        names = model_layers.activations(self._model, chosen)
        if options.ranges:
            given = range_file.read(options.ranges)
            range_file.require_all(options.ranges, given, names)
            return {name: given[name] for name in names}
        ranges = {}
        for number, name in enumerate(names):
            self._tell(f"ranges: {options.method}, tensor {number + 1} of {len(names)}")
            ranges[name] = chosen_range(options.method, histograms[name])
        return ranges

    def _adapted(self, every: Sequence[LayerNodes], ranges: Mapping[str, Range]) -> dict[str, RoundedWeight]:
        """The integers of the weights of all layers."""
        keyed = {_content_key(sample): functools.partial(self._read, sample) for sample in self._spread(MOST_JUDGED)}
        whole, kept = self._quantized(every, ranges), self._source.file.with_suffix(".rounding.npz")
        rounding = AdaptiveRounding(self._process, self._model, whole, every, keyed, kept)
        return rounding.run(lambda text: self._tell(f"rounding: {text}"))

    def _measured(self, every: Sequence[LayerNodes], ranges: Mapping[str, Range]) -> _Measured:
        """Tries each layer alone, all together, and without the worst ones; these go to what stays in float."""
        quantised = self._quantized(every, ranges)
        switched = SwitchedModel(self._process, self._model, quantised, every)
        names = [layer.name for layer in every]
        alone = self._spread(max(1, min(MOST_ALONE, MOST_TRIALS // len(every))))
        references = [self._expected(sample) for sample in alone]

        def sqnr_db(layer: LayerNodes) -> float:
            self._tell(f"layers: {layer.name} alone")
            found = [switched.outputs(self._read(sample), [layer.name]) for sample in alone]
            return fidelity(references, found, self._axes).sqnr_db

        alone_db = {layer.name: sqnr_db(layer) for layer in every}

        def judged(in_float: frozenset[str]) -> Fidelity:
            self._tell(f"budget: {len(in_float)} of {len(names)} layers in float")
            rest = [name for name in names if name not in in_float]
            return self._fidelity(lambda inputs: switched.outputs(inputs, rest))

        before, budget = judged(frozenset()), self._options.budget
        if self._times is not None:
            most, powers = power_of(budget.sqnr_db or 0.0), {name: power_of(db) for name, db in alone_db.items()}
            chosen = cheapest_in_float(
                self._model, every, powers, self._times, most, lambda kept: power_of(judged(kept).sqnr_db)
            )
            if len(chosen) == len(every):
                raise JobError("in float it is the fastest within the budget")
            self._in_float |= dict.fromkeys(chosen, "faster so")
        elif budget.is_set and not budget.holds(before):
            found = fewest_in_float(every, alone_db, lambda in_float: budget.holds(judged(in_float)))
            if found is None:
                best = max(alone_db.values())
                raise JobError(f"no layer can be quantised within the budget: the best one alone leaves {best:.1f} dB")
            self._in_float |= dict.fromkeys(found, f"loses most: {budget.text}")
        after = self._stepped_back(ranges, alone_db)
        kept = [name for name in names if name not in self._in_float]
        watched = SwitchedModel(self._process, self._model, quantised, every, [layer.output for layer in every])
        plain, whole, final = (
            [watched.outputs(self._read(sample), chosen) for sample in alone] for chosen in ([], names, kept)
        )
        by_output = {layer.output: layer.name for layer in every if layer.output in plain[0]}
        noise = [sqnr_by_tensor(plain, found, [*by_output]) for found in (whole, final)]
        before_db, after_db = ({by_output[each]: value for each, value in found.items()} for found in noise)
        return _Measured(alone_db, before_db, after_db, before, after)

    def _chosen(self) -> list[LayerNodes]:
        return [layer for layer in self._layers if layer.name not in self._in_float]

    def _stepped_back(self, ranges: Mapping[str, Range], alone_db: Mapping[str, float]) -> Fidelity:
        """What the model keeps as it is written: further layers stay in float until that is the budget, too.

        Layers are chosen by a model with switches, and by sums of noise. Raises JobError where none is left.
        """
        budget = self._options.budget
        while chosen := self._chosen():
            self._tell(f"check: {len(chosen)} of {len(self._layers)} layers in eight bits")
            found = self._fidelity(self._run(self._quantized(chosen, ranges)))
            if not budget.is_set or budget.holds(found):
                return found
            worst = min(chosen, key=lambda layer: alone_db[layer.name])
            self._in_float[worst.name] = f"loses most: {budget.text}"
        raise JobError(f"no layer can be quantised within the budget: the last one leaves {found.sqnr_db:.1f} dB")

    def _quantized(self, layers: Sequence[LayerNodes], ranges: Mapping[str, Range]) -> onnx.ModelProto:
        """The last one is kept: where no layer has to stay in float, it is what is written."""
        key = bool(self._bias_errors), bool(self._rounded), tuple(layer.name for layer in layers)
        if self._made is None or self._made[0] != key:
            model = with_biases(self._model, layers, self._bias_errors)
            if self._options.weights_only:
                made = qdq.weights_only(model, layers, self._options.weights_only)
            else:
                made = qdq.quantized(model, layers, ranges, self._options.per_channel, self._options.reduce_range)
            self._made = key, with_integers(made, self._rounded) if self._rounded else made
        return self._made[1]

    def _run(self, model: onnx.ModelProto) -> Callable[[Inputs], dict[str, Array]]:
        content = model.SerializeToString()
        return lambda inputs: self._process.run(content, inputs)

    def _fidelity(self, run: Callable[[Inputs], dict[str, Array]]) -> Fidelity:
        judged = self._spread(MOST_JUDGED)
        return fidelity(
            [self._expected(each) for each in judged], [run(self._read(each)) for each in judged], self._axes
        )

    @functools.cached_property
    def _axes(self) -> dict[str, int]:
        """The axis of the channels of each output of floats."""
        formats, floats = self._source.formats, model_layers.float_tensors(self._model)
        ranks = {name: rank for name, rank in self._source.ranks.items() if name in floats}
        if not ranks:
            raise ModelError(f"{self._source.where}: no output holds floats, which SQNR is measured on")
        return {name: channel_axis(formats[name], rank) for name, rank in ranks.items()}

    def _spread(self, most: int) -> list[Sample]:
        """So many samples at most, evenly from all."""
        places = np.linspace(0, len(self._samples) - 1, min(most, len(self._samples)))
        return [self._samples[place] for place in places.round().astype(int)]

    def _read(self, sample: Sample) -> Inputs:
        return read_sample(sample, self._source.inputs)

    def _expected(self, sample: Sample) -> dict[str, Array]:
        """The float model's outputs, computed once."""
        if sample.name not in self._outputs:
            self._outputs[sample.name] = self._run(self._model)(self._read(sample))
        return self._outputs[sample.name]

    @functools.cached_property
    def _outputs(self) -> dict[str, dict[str, Array]]:
        return {}

    def _refuse_constant_samples(self) -> None:
        """Raises ConfigError where every input has one value in all samples."""
        seen: dict[str, set[float]] = {}
        for sample in self._samples:
            for name, value in self._read(sample).items():
                known = seen.setdefault(name, set())
                known |= {float(value.min()), float(value.max())}
            if all(len(values) > 1 for values in seen.values()):
                return
        if seen and all(len(values) == 1 for values in seen.values()):
            told = ", ".join(f"{name!r} is {next(iter(values)):g} everywhere" for name, values in seen.items())
            count = len(self._samples)
            samples = f"{count} samples" if count > 1 else "the only sample"
            text = f"{told} in {samples}: such ranges mean nothing, give samples of real data"
            raise ConfigError(f"{self._source.asks} {self._options.data}: {text}")

    def _figures(
        self, layer: LayerNodes, ranges: Mapping[str, Range], histograms: Mapping[str, Histogram], measured: _Measured
    ) -> QuantizedLayer:
        low, high = ranges.get(layer.output, (None, None))
        seen = histograms.get(layer.output)
        clipped = None if seen is None or low is None or high is None else 100 * seen.clipped_share(low, high)
        return QuantizedLayer(
            name=layer.name,
            op=layer.op,
            in_float=self._in_float.get(layer.name, ""),
            low=low,
            high=high,
            lowest=seen.lowest if seen else None,
            highest=seen.highest if seen else None,
            clipped_percent=clipped,
            alone_db=measured.alone_db.get(layer.name),
            before_db=measured.before_db.get(layer.name),
            after_db=measured.after_db.get(layer.name),
            rounding_db=self._rounding_db(layer),
            histogram=tuple(seen.drawn(BARS)) if seen else (),
        )

    def _rounding_db(self, layer: LayerNodes) -> float | None:
        """What adaptive rounding gained of the layer's weights."""
        gains = [self._rounded[name].gain_db for name in sorted(layer.tensors) if name in self._rounded]
        return min(gains, default=None)

    def _saturated(self, ranges: Mapping[str, Range], histograms: Mapping[str, Histogram]) -> Iterator[str]:
        """A line for each tensor whose range clips many values, with the layer that writes it, or reads it first."""
        mend = f"widen it in {self._options.ranges}" if self._options.ranges else "--method minmax keeps all"
        nodes = {node.name: node for node in self._model.graph.node}
        known = ranges.keys() & histograms.keys()
        for layer in self._layers:
            if layer.name in self._in_float:
                continue
            # Before a ReLU nothing is rounded: what it clips is no loss.
            limited = {nodes[name].input[0] for name in layer.nodes if nodes[name].op_type in model_layers.LIMITING}
            for tensor in sorted((layer.tensors & known) - limited):
                low, high = ranges[tensor]
                if (share := histograms[tensor].clipped_share(low, high)) > MOST_CLIPPED:
                    values = f"{100 * share:.1f} % of the values of {tensor!r} lie outside of {low:g} to {high:g}"
                    yield f"layer {layer.name!r} is saturated: {values}; {mend}"
            known -= layer.tensors

    def _lossy(self, figures: QuantizeFigures) -> Iterator[str]:
        """What may help an output that is mostly noise, where no budget said how much is wanted."""
        if figures.after_db is None or figures.after_db >= FAITHFUL_DB or self._options.budget.is_set:
            return
        finer = "" if self._options.per_channel else "--per-channel rounds weights more finely, "
        budget = f"--budget-sqnr {FAITHFUL_DB:g} keeps the worst layers in float"
        yield f"an output of {figures.after_db:.1f} dB is little like the float one: {finer}{budget}"

    def _write(
        self,
        model: onnx.ModelProto,
        ranges: Mapping[str, Range],
        layers: tuple[QuantizedLayer, ...],
        measured: _Measured,
    ) -> QuantizeFigures:
        content = model.SerializeToString(deterministic=True)
        beside = self._file.with_suffix(".ranges") if ranges and not self._options.equalize else None
        if beside:
            range_file.write(beside, ranges)
        atomic_file.write(self._file, content)
        before, after = measured.before, measured.after
        return QuantizeFigures(
            file=str(self._file),
            ranges_file=str(beside or ""),
            samples=len(self._samples),
            judged=len(self._spread(MOST_JUDGED)) if self._samples else 0,
            float_bytes=self._model.ByteSize(),
            quantized_bytes=len(content),
            before_db=before.sqnr_db if before else None,
            after_db=after.sqnr_db if after else None,
            agreement_percent=100 * after.agreement if after else None,
            layers=layers,
        )


def _content_key(sample: Sample) -> str:
    """Names a sample by the content of its files."""
    digest = hashlib.sha256()
    for name, path in sorted(sample.files.items()):
        with path.open("rb") as file:
            digest.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()} ".encode())
    return digest.hexdigest()
