"""Every version of ONNX's operators: the node test cases, which the ONNX package has of the newest, in older forms.

What an older version has as attributes is taken from the inputs of the same name. The outputs are those of ONNX Runtime
for the older form, else of ONNX's own reference, else of the newest form; a version that neither of the two computes,
or that no case can be written in, is not measured.
"""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from benchmarks.onnx_cases import RIGHT, Case, Runner, outcome
from runtime.host.onnx_runtime import onnxruntime
from runtime.target import Target

TRIED = 6  # cases of a version that are measured
IR_VERSION = 8
_RENAMED = {"constant_value": "value", "K": "k"}  # input -> the attribute that it was
_UNMEASURED = (Exception,)  # what ONNX Runtime and the reference raise has no common class


class Versions:
    """What came of each version of each operator that was measured."""

    def __init__(self, target: Target, runner: Runner) -> None:
        self._target, self._runner = target, runner
        self._statuses: dict[tuple[str, int], list[str]] = collections.defaultdict(list)

    def measure(self, case: Case) -> None:
        """Runs a case in the form of every version but the newest."""
        for version in versions(case.operator)[:-1]:
            found = self._statuses[case.operator, version]
            older = in_version(case, version) if len(found) < TRIED else None
            if older is not None:
                found.append(self._status(older, case))

    def _status(self, older: Case, newest: Case) -> str:
        """By the older form's outputs, else by the newest form's, which ONNX Runtime computes less exactly at times."""
        status = outcome(older, self._target, self._runner).status
        if status != "wrong":
            return status
        outputs = {name: newest.outputs[name] for name in older.outputs}
        return outcome(dataclasses.replace(older, outputs=outputs), self._target, self._runner).status

    def text(self, operator: str, newest: bool) -> str:
        """The versions that are not right, for a table; `newest`: whether a case of the newest is right."""
        known = versions(operator)
        ends = {version: _end(self._statuses[operator, version]) for version in known[:-1]}
        ends |= dict.fromkeys(known[-1:], "right" if newest else "refused")
        groups = [
            (end, ", ".join(str(version) for version in known if ends[version] == end))
            for end in ("wrong", "failed", "refused", "not measured")
        ]
        return "; ".join(f"{end}: {listed}" for end, listed in groups if listed)


def _end(statuses: Sequence[str]) -> str:
    """The worst that may not be, else right where any case is."""
    for bad in ("wrong", "failed"):
        if bad in statuses:
            return bad
    if any(status in RIGHT for status in statuses):
        return "right"
    return "refused" if statuses else "not measured"


@functools.cache
def versions(operator: str) -> list[int]:
    """The `since_version`s of an operator of the main domain, deprecated ones left out."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return sorted({s.since_version for s in schemas if (s.domain, s.name) == ("", operator) and not s.deprecated})


def in_version(case: Case, version: int) -> Case | None:
    """The case as a version of its operator writes it, with the outputs of that; None where there is no such form."""
    (node,) = case.model.graph.node if len(case.model.graph.node) == 1 else (None,)
    if node is None or node.op_type != case.operator or not _are_arrays(case):
        return None
    newest = case.model.opset_import[0].version
    old, new = (onnx.defs.get_schema(node.op_type, each) for each in (version, newest))
    written = _older_node(node, old, new, case.inputs)
    if written is None:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, IR_VERSION)
    model.opset_import[0].version = version
    model.graph.node[0].CopyFrom(written)
    kept = [value for value in model.graph.input if value.name in written.input]
    del model.graph.input[:], model.graph.output[len(written.output) :]
    model.graph.input.extend(kept)
    inputs = {value.name: case.inputs[value.name] for value in kept}
    outputs = _outputs(model, inputs)
    return None if outputs is None else dataclasses.replace(case, model=model, inputs=inputs, outputs=outputs)


def _are_arrays(case: Case) -> bool:
    return all(isinstance(value, np.ndarray | np.generic) for value in (*case.inputs.values(), *case.outputs.values()))


def _older_node(node: NodeProto, old: Any, new: Any, values: Mapping[str, Any]) -> NodeProto | None:
    """The node with inputs and attributes of an older schema; None where that lacks what it needs."""
    attributes = {each.name: each for each in node.attribute}
    for name, attribute in list(attributes.items()):
        if name not in old.attributes:
            default = new.attributes[name].default_value
            if not default.name or helper.get_attribute_value(default) != helper.get_attribute_value(attribute):
                return None
            del attributes[name]
    for name in old.attributes.keys() & new.attributes.keys() - attributes.keys():
        if (default := new.attributes[name].default_value).name:
            attributes[name] = default
    inputs = list(node.input[: old.max_input])
    for index, name in enumerate(node.input[old.max_input :], old.max_input):
        formal = new.inputs[min(index, len(new.inputs) - 1)].name
        was = _RENAMED.get(formal, formal)
        if name and (was not in old.attributes or name not in values):
            return None
        if name:
            attributes[was] = _attribute(was, old.attributes[was].type, np.asarray(values[name]))
    if any(each.required and each.name not in attributes for each in old.attributes.values()):
        return None
    if not _fits(inputs, old, values) or len(inputs) < old.min_input:
        return None
    older = NodeProto(op_type=node.op_type, name=node.name, input=inputs, output=node.output[: old.max_output])
    older.attribute.extend(attributes.values())
    return older


def _attribute(name: str, kind: Any, value: Any) -> onnx.AttributeProto:
    """The value of an input as an attribute."""
    types = onnx.defs.OpSchema.AttrType
    listed, number = kind in (types.INTS, types.FLOATS), float if kind in (types.FLOAT, types.FLOATS) else int
    flat = [number(each) for each in value.reshape(-1)]
    return helper.make_attribute(name, flat if listed else flat[0], attr_type=kind.value)


def _fits(inputs: Sequence[str], old: Any, values: Mapping[str, Any]) -> bool:
    """Whether the older schema has these inputs, of their element types."""
    for index, name in enumerate(inputs):
        formal = old.inputs[min(index, len(old.inputs) - 1)]
        if not name:
            continue
        if name not in values:
            return False
        kind = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(np.asarray(values[name]).dtype)).lower()
        if f"tensor({kind})" not in formal.types:
            return False
    return True


def _outputs(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any] | None:
    names = [value.name for value in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with contextlib.suppress(*_UNMEASURED):
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return dict(zip(names, session.run(None, dict(inputs)), strict=True))
    with contextlib.suppress(*_UNMEASURED):
        return dict(zip(names, ReferenceEvaluator(model).run(None, dict(inputs)), strict=True))
    return None
