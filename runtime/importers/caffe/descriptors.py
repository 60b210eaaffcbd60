"""Protobuf message classes from a compact notation, so that no compiler and no generated file is needed.

Message               a message; its fields follow, indented: number, name, type
  1 name string
  2 dim int64*        repeated
  3 axis int32=1      with a default
Method: MAX=0 AVE=1   an enumeration
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

PACKAGE = "caffe"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_FIELD, f"TYPE_{name.upper()}")
    for name in ("string", "bytes", "bool", "int32", "uint32", "int64", "float", "double")
}


def message_classes(notation: str) -> Mapping[str, Any]:
    """The class of every message of the notation, by name."""
    file = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package=PACKAGE, syntax="proto2")
    enumerations: set[str] = set()
    for line in filter(None, notation.splitlines()):
        name, colon, values = line.partition(":")
        if colon:
            enumerations.add(name)
            _add_enumeration(file.message_type.add(name=name), values)
        elif line.startswith(" "):
            _add_field(file.message_type[-1], line, enumerations)
        else:
            file.message_type.add(name=line)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = {message.name for message in file.message_type} - enumerations
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names}


def _add_enumeration(scope: Any, values: str) -> None:
    """An enumeration in a message of its own: the values of two in one scope must not have the same name."""
    enumeration = scope.enum_type.add(name="Value")
    for value in values.split():
        name, _, number = value.partition("=")
        enumeration.value.add(name=name, number=int(number))


def _add_field(message: Any, line: str, enumerations: set[str]) -> None:
    number, name, kind = line.split()
    kind, _, default = kind.partition("=")
    label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    field = message.field.add(name=name, number=int(number), label=label)
    if default:
        field.default_value = default
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _FIELD.TYPE_ENUM if kind in enumerations else _FIELD.TYPE_MESSAGE
    field.type_name = f".{PACKAGE}.{kind}" + (".Value" if kind in enumerations else "")
