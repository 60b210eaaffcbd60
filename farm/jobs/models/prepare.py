"""Deployment file -> fetched, bounded and converted models, with the inputs that they are tested on."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from farm.config.deployment import DataType, Deployment, Input, Model, Output, Runtime
from farm.config.execution import Execution
from farm.config.platforms import PLATFORMS, DataFormat
from farm.jobs.models.custom import custom_names, custom_report
from farm.model import boundary, data_formats, fetch, own_values
from farm.model.arithmetic_limits import beyond_half
from farm.model.framework_model import READERS, FrameworkModel, read_source_model
from farm.model.further_cases import FurtherCases, further_cases
from farm.model.further_inputs import NUDGE, generator, nudged, with_nudged_scales
from farm.model.metrics import Metrics, compare, worst
from farm.model.oracle import expected_outputs
from farm.model.padded_outputs import filled
from farm.model.stepwise import decides
from farm.rows.forecast import MIXED
from farm.workspace import Workspace
from runtime.convert import convert
from runtime.errors import ConfigError, FarmError, ModelError, NoReferenceError, UnsupportedError, farm_error
from runtime.graph import Array, Graph
from runtime.importers.farm_domain import CustomNames
from runtime.importers.onnx_file import whole
from runtime.importers.stand_ins import needs_stand_in
from runtime.lowering.choice import GraphChoice
from runtime.lowering.lower import Options
from runtime.oracle.evaluate import evaluate
from runtime.passes.fake_quantization import fake_steps
from runtime.passes.pipeline import PassReport
from runtime.plan.plan import Plan
from runtime.types import OriginFormat, Precision, Precisions, asked_algorithms

if TYPE_CHECKING:
    from farm.quantization.quantizer import FloatModel


PRECISIONS: Mapping[DataType, Precision] = {
    "fp32_fp32": Precision.FP32,
    "fp16_fp32": Precision.FP16_STORAGE,
    "fp16_fp16": Precision.FP16,
}
DATA_TYPES: Mapping[Precision, DataType] = {precision: data_type for data_type, precision in PRECISIONS.items()}
SEED = 1
QUANTIZED = "eight bits within the limit of noise"
FLOAT_NUDGE = 2.0**-13  # moves some steps of small inputs, too; what GPUs may be wrong by is some times more
MOVEMENTS = 3  # one alone may chance to move no step that counts
STANDARD_DOMAINS = ("", "ai.onnx")
Tell = Callable[[str], None]  # gets how far what takes long is


def data_types(precisions: Iterable[Precision]) -> str:
    """The data type of a plan whose operators have these precisions: `fp16_fp32`, of a mixed one all of them."""
    return MIXED.join(DATA_TYPES[each] for each in precisions)


def plan_data_type(plan: Plan) -> str:
    """The data type of a plan."""
    return data_types(plan.precisions)


def least_exact(text: str) -> Precision:
    """The least exact precision in the data type of a plan: what its outputs are judged by."""
    named = {data_type: precision for data_type, precision in PRECISIONS.items() if data_type in text.split(MIXED)}
    return max(named.values())


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A model that is ready for any target.

    Attributes:
        settings: the deployment file's, completed by what the model has.
        outputs: the deployment file's outputs, then its check_tensors where those are compared too.
        source: the bounded ONNX model, what the oracle runs.
        graph: the same, converted.
        custom: the users' operators that the model may have.
        framework: the model as the framework has it that computes the reference outputs; None for ONNX Runtime.
        siblings: the models that are subgraphs of the same model of the file, itself among them.
    """

    deployment: Deployment
    name: str
    settings: Model
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    source: onnx.ModelProto
    graph: Graph
    reports: tuple[PassReport, ...]
    custom: CustomNames
    framework: FrameworkModel | None = None
    siblings: tuple[Prepared, ...] = ()

    def options(self, keep: tuple[str, ...] = (), choice: GraphChoice | None = None) -> Options:
        """What the deployment file asks of the lowering, and the choice that it obeys; None: its own rules."""
        algorithms, obfuscate = asked_algorithms(self.settings.winograd), self.settings.obfuscate
        return Options(algorithms, obfuscate, keep, separate_weights=self.shares_weights, choice=choice)

    @property
    def shares_weights(self) -> bool:
        """Whether its weights may lie in one file with those of other subgraphs; code holds those of one plan alone."""
        is_file = self.deployment.model_data_format == "file"
        return is_file and len(self.deployment.siblings(self.name)) > 1

    def with_execution(self, execution: Execution) -> Prepared:
        """Returns the model with these execution settings; a setting that is None stays as the deployment file says."""
        if not execution.given:
            return self
        return dataclasses.replace(self, settings=self.settings.with_execution(execution))

    def precision(self, runtime: Runtime) -> Precision:
        """Storage and arithmetic on a runtime where tuning has chosen no other."""
        return PRECISIONS[self.settings.data_type_on(runtime)]

    def precisions(self, has_half: bool) -> Precisions:
        """What the file allows on a GPU, which has arithmetic in half or not; the first runs until tuning chooses."""
        allowed = (PRECISIONS[data_type] for data_type in self.settings.data_types_on("gpu"))
        return tuple(each for each in allowed if has_half or not each.computes_in_half)

    @functools.cached_property
    def is_quantized(self) -> bool:
        """Whether activations are rounded to steps, so that a difference in the last digit becomes one.

        Steps may be known, or found while the model runs.
        """
        graph = self.graph
        is_known = any(graph.tensors[name].quantization for name in graph.activations())
        return is_known or any(fake_steps(node) or node.op == "Round" for node in graph.nodes)

    @functools.cached_property
    def decides(self) -> bool:
        """Whether it chooses by floats, as detection does, so that their last digit may turn a choice."""
        return any(decides(self.graph, node) for node in self.graph.nodes)

    def moved_by_rounding(self, precision: Precision) -> Metrics | None:
        """How far the reference moves where the input moves by the precision's rounding; None without a reference.

        A model that is quantised, or decides, may turn few steps or choices that fall the other way to any difference:
        that is its own, not a runtime's.
        """
        if precision.stores_half not in self._movements:
            self._movements[precision.stores_half] = _movement(self, NUDGE if precision.stores_half else FLOAT_NUDGE)
        return self._movements[precision.stores_half]

    @functools.cached_property
    def _movements(self) -> dict[bool, Metrics | None]:
        return {}

    @functools.cached_property
    def own_data(self) -> TestData:
        """The deployment file's validation inputs, and noise for the others."""
        return self.data_with({})

    def data_with(self, given: Mapping[str, Array]) -> TestData:
        """The same, with these inputs in place of its own."""
        own = fetch.Fetcher(self.deployment).validation_inputs(self.name, self.inputs)
        return TestData(self, own | dict(given))

    def standard(self) -> onnx.ModelProto:
        """The model of ONNX's own operators, before any are fused; UnsupportedError where it holds others."""
        if own := {node.op_type for node in self.source.graph.node if node.domain not in STANDARD_DOMAINS}:
            raise UnsupportedError(f"{self.deployment.path}: no operators of ONNX: {', '.join(sorted(own))}")
        return whole(self.source)

    def floats(self, asks: str) -> FloatModel:
        """The model as it is to be quantised; errors as of `standard`. `asks` names the folder of samples."""
        from farm.quantization.quantizer import FloatModel

        ranks = {tensor.name: len(self.graph.shape(tensor.name)) for tensor in self.outputs}
        file = Workspace(self.deployment.library_name).quantized_file(self.name)
        named = self.deployment.path, self.name
        return FloatModel(*named, self.standard(), self.inputs, self.data_formats, ranks, file, asks)

    @property
    def quantized(self) -> str:
        """What `quantize_within` made of it; empty where the file does not have the key."""
        return next((line for report in self.reports if report.name == QUANTIZED for line in report.changes), "")

    @property
    def data_formats(self) -> Mapping[str, DataFormat]:
        """Format of each output."""
        return {tensor.name: tensor.data_format for tensor in self.outputs}


def say_nothing(text: str) -> None:
    """Tells nobody."""


def prepare(
    source: Deployment, name: str, fetcher: fetch.Fetcher, check: bool = False, tell: Tell = say_nothing
) -> Prepared:
    """Fetches and converts a model; with `check` its check_tensors are outputs too.

    Raises:
        ConfigError: the deployment file or what it points to is wrong.
        ModelError: the model is damaged, unsupported, or not what the deployment file says.
    """
    settings = source.models[name]
    path, weights = fetcher.model_file(name), fetcher.weight_file(name)
    own = PLATFORMS[settings.platform].own_format
    custom = custom_names(source, name)
    with _located(source, name):
        if settings.subgraph.is_open:
            settings = own_values.completed(settings, own_values.own_tensors(source, name, fetcher))
        named = settings.subgraph.outputs + (_checked(settings) if check else ())
        found = _framework_model(settings, path, named, source.trusts_models)
        onnx_file = found.onnx_file(fetcher.cache_folder) if found else path
        is_caffe, inputs = settings.platform == "caffe", settings.subgraph.inputs
        if is_caffe:
            inputs = data_formats.infer_caffe_inputs(own_values.own_tensors(source, name, fetcher).inputs, inputs)
        read = read_source_model(settings.platform, onnx_file, weights, inputs, named)
        boundary.check_names(read.model, inputs, named)
        inputs = own_values.typed_inputs(inputs, own_values.element_types(read.model))
        inputs = inputs if is_caffe else data_formats.infer_inputs(read.model, inputs)
        model = boundary.cut_at_boundary(read.model, inputs, named, own)
        graph, reports = _converted(model, inputs, named, custom)
        computed = [graph.shape(tensor.name) for tensor in named]
        outputs = data_formats.infer_outputs(computed, named, inputs, follow=is_caffe)
        if outputs != named:
            model = boundary.cut_at_boundary(read.model, inputs, outputs, own)
            graph, reports = _converted(model, inputs, outputs, custom)
        if settings.quantize or settings.quantize_large_weights:
            model = _quantized(model, fetcher.range_file(name) if settings.quantize else None)
            graph, reports = _converted(model, inputs, outputs, custom)
        reports = [*_import_report(settings.platform, read.notes), *custom_report(graph), *reports]
        graph.name = name
        _check_outputs(graph, outputs)
    # The random numbers that a framework draws are not those of the plan.
    is_own = settings.oracle == "onnxruntime" or settings.is_quantized_here or needs_stand_in(model)
    oracle = None if is_own else found
    prepared = Prepared(source, name, settings, inputs, outputs, model, graph, tuple(reports), custom, oracle)
    return prepared if settings.quantize_within is None else _quantized_within(prepared, fetcher, tell)


def _quantized_within(prepared: Prepared, fetcher: fetch.Fetcher, tell: Tell) -> Prepared:
    """The model in eight bits as far as its noise allows."""
    from farm.quantization import by_keys

    name, settings = prepared.name, prepared.settings
    try:
        folder, limit = fetcher.sample_folder(name), settings.quantize_within or 0.0
        model, said = by_keys.quantized_within(prepared.floats("quantize_samples"), folder, limit, tell)
    except ConfigError as error:
        raise prepared.deployment.error(("models", name, "quantize_within"), str(error)) from None
    graph, reports = _converted(model, prepared.inputs, prepared.outputs, prepared.custom)
    graph.name = name
    done = {report.name for report in reports}
    before = [report for report in prepared.reports if report.name not in done]
    every = (*before, PassReport(QUANTIZED, said), *reports)
    return dataclasses.replace(prepared, source=model, graph=graph, reports=every)


def _quantized(model: onnx.ModelProto, ranges: Path | None) -> onnx.ModelProto:
    """The model in eight bits, by a file of ranges; without one its weights alone."""
    from farm.quantization import by_keys

    given = whole(model)
    return by_keys.quantized_by_file(given, ranges) if ranges else by_keys.quantized_weights(given)


def _converted(
    model: onnx.ModelProto, inputs: Sequence[Input], outputs: Sequence[Output], custom: CustomNames
) -> tuple[Graph, list[PassReport]]:
    """The graph of a model; an input that nothing reads stays one, since applications give it."""
    shapes = {tensor.name: tensor.shape for tensor in inputs}
    return convert(model, shapes, formats=_known_formats(inputs, outputs), custom=custom)


def _known_formats(inputs: Sequence[Input], outputs: Sequence[Output]) -> dict[str, OriginFormat]:
    """What the deployment file says of the formats of inputs and outputs."""
    tensors: list[Input | Output] = [*inputs, *outputs]
    known = [tensor for tensor in tensors if tensor.has_format and tensor.data_format != "NONE"]
    return {tensor.name: OriginFormat(tensor.data_format) for tensor in known}


def _framework_model(settings: Model, path: Path, outputs: tuple[Output, ...], trusted: bool) -> FrameworkModel | None:
    """The model as its framework has it; None for one that farm reads by itself."""
    if settings.platform in READERS:
        return None
    own = PLATFORMS[settings.platform].own_format
    return FrameworkModel(settings.platform, path, settings.subgraph.inputs, outputs, own, trusted)


def prepare_all(source: Deployment, check: bool = False, tell: Tell = say_nothing) -> list[Prepared | Failed]:
    """Every model of the file; one that cannot be converted does not keep the others from running."""
    fetcher = fetch.Fetcher(source)
    models: list[Prepared | Failed] = []
    for name in source.models:
        try:
            models.append(prepare(source, name, fetcher, check, tell))
        except (ModelError, MemoryError) as error:
            models.append(Failed(source, name, source.models[name], farm_error(error)))
    ready = {each.name: each for each in with_siblings([each for each in models if isinstance(each, Prepared)])}
    return [ready.get(each.name, each) for each in models]


def with_siblings(models: Sequence[Prepared]) -> list[Prepared]:
    """The models of a deployment file, each with its siblings."""
    by_name = {each.name: each for each in models}
    siblings = {name: each.deployment.siblings(name) for name, each in by_name.items()}
    return [
        dataclasses.replace(each, siblings=tuple(by_name[name] for name in siblings[each.name] if name in by_name))
        for each in models
    ]


@dataclasses.dataclass(frozen=True)
class Failed:
    """A model that cannot run anywhere, and why."""

    deployment: Deployment
    name: str
    settings: Model
    error: FarmError

    def with_execution(self, execution: Execution) -> Failed:
        """Returns a copy whose settings are completed as those of models that can run."""
        return dataclasses.replace(self, settings=self.settings.with_execution(execution))


class TestData:
    """Inputs of a model and what its oracle makes of them, computed once for all units."""

    __test__ = False

    def __init__(self, prepared: Prepared, given: Mapping[str, Array]) -> None:
        self._prepared, self._given = prepared, frozenset(given)
        self.inputs = {tensor.name: given.get(tensor.name, random_input(tensor)) for tensor in prepared.inputs}

    @property
    def expected(self) -> dict[str, Array]:
        """The oracle's outputs, in the shapes that the plan has; NoReferenceError where it has none."""
        if isinstance(self._reference, NoReferenceError):
            raise self._reference
        return self._reference

    @functools.cached_property
    def _reference(self) -> dict[str, Array] | NoReferenceError:
        """The oracle is asked once, for a model that it cannot run too."""
        prepared = self._prepared
        if prepared.framework:
            found = prepared.framework.reference_outputs(self.inputs)
            return filled(prepared.graph, found, self.inputs)
        try:
            found = expected_outputs(prepared.source, self.inputs, prepared.custom)
        except NoReferenceError as error:
            return error
        return filled(prepared.graph, found, self.inputs)

    @functools.cached_property
    def further(self) -> FurtherCases:
        """What else a plan is judged by: squashed tensors, and other values of inputs that are not given."""
        prepared = self._prepared
        return further_cases(
            prepared.source, prepared.graph, prepared.custom, prepared.inputs, self.inputs, self._given
        )

    @functools.cached_property
    def beyond_half(self) -> str:
        """What leaves half's range for these inputs, empty where nothing does: computes the whole graph in NumPy."""
        graph = self._prepared.graph
        return beyond_half(graph, evaluate(graph, self.inputs))


def _movement(prepared: Prepared, share: float) -> Metrics | None:
    """The worst figures of outputs where the inputs are moved, some times, by up to a share of their range.

    Scales are moved too, since rounded inputs make sums that lie in the middle of two steps, whatever moved them.
    """
    data = TestData(prepared, {})
    moves = [nudged(prepared.inputs, data.inputs, (), share, number) for number in range(MOVEMENTS)]
    sources = [with_nudged_scales(prepared.source, number) for number in range(MOVEMENTS)]
    models = [dataclasses.replace(prepared, source=source) for source in sources]
    try:
        after = [TestData(model, inputs).expected for model, inputs in zip(models, moves, strict=True)]
        pairs = [(data.expected[name], found[name]) for name in prepared.graph.outputs for found in after]
    except NoReferenceError:
        return None
    return worst(compare(before, after) for before, after in pairs if before.shape == after.shape)


def validation_data(prepared: Prepared, given: Mapping[str, Array] | None = None) -> TestData:
    """The deployment file's validation inputs, those that are `given` in place of theirs, and noise for the others.

    Where none is given they are the model's own, whose reference is computed once.
    """
    return prepared.data_with(given) if given else prepared.own_data


def random_input(tensor: Input) -> Array:
    """Uniform noise in the input's range, the same in every run; its seed hangs on the tensor's name."""
    random = generator(SEED, tensor)
    low, high = tensor.value_range
    noise = random.uniform(low, high, tensor.shape)
    return noise > (low + high) / 2 if tensor.data_type == "bool" else noise.astype(tensor.data_type)


def given_inputs(words: Sequence[str], tensors: Sequence[Input]) -> dict[str, Array]:
    """Arrays of `NAME=FILE.npy`, or of a bare FILE.npy for the only input; ConfigError where one does not fit."""
    by_name = {tensor.name: tensor for tensor in tensors}
    arrays: dict[str, Array] = {}
    for word in words:
        name, path = _input_word(word, by_name)
        if name in arrays:
            raise ConfigError(f"--input {word}: the input {name!r} is given twice")
        arrays[name] = fetch.load_array(path, by_name[name])
    return arrays


def _input_word(word: str, by_name: Mapping[str, Input]) -> tuple[str, Path]:
    name, separator, path = word.partition("=")
    if separator and name in by_name:
        return name, Path(path)
    if not separator and len(by_name) == 1:
        return next(iter(by_name)), Path(word)
    inputs = ", ".join(repr(name) for name in by_name)
    raise ConfigError(f"--input {word}: write NAME=FILE.npy; the model's inputs are {inputs}")


def _checked(settings: Model) -> tuple[Output, ...]:
    """check_tensors as outputs, in the model's own order; a tensor that is an output anyway is not doubled."""
    subgraph = settings.subgraph
    shapes = subgraph.check_shapes or (None,) * len(subgraph.check_tensors)
    pairs = zip(subgraph.check_tensors, shapes, strict=True)
    return tuple(Output(name, shape, "NONE") for name, shape in pairs if name not in subgraph.output_tensors)


def _import_report(platform: str, notes: Sequence[str]) -> list[PassReport]:
    """What the reader of a platform noted, beside what the passes did."""
    return [PassReport(f"{platform} import", list(notes))] if notes else []


def _check_outputs(graph: Graph, outputs: Sequence[Output]) -> None:
    for tensor in outputs:
        computed = graph.shape(tensor.name)
        if tensor.shape not in (None, computed):
            given = ",".join(map(str, tensor.shape or ()))
            raise ModelError(
                f"output {tensor.name!r}: shape {given}, but the model computes {','.join(map(str, computed))}"
            )


@contextlib.contextmanager
def _located(source: Deployment, name: str) -> Iterator[None]:
    """Puts the deployment file and the model's name before the text of an error."""
    try:
        yield
    except ConfigError as error:
        raise source.error(("models", name), str(error)) from None
    except ModelError as error:
        kind = UnsupportedError if isinstance(error, UnsupportedError) else ModelError
        raise kind(f"{source.error(('models', name), str(error))}") from None
