"""The keywords that several functions of farm.api and commands take, by what they are about; each stands here once.

Importing this takes nothing that only work needs, so that a command's help can name them too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ForwardRef, TypedDict, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
File = str | Path
Shapes = Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None


class ShapeKeywords(TypedDict, total=False):
    """What a model file leaves open."""

    shapes: Shapes
    weights: File | None


class ModelKeywords(ShapeKeywords, total=False):
    """How a model is read; `runtimes` take the place of the deployment file's."""

    trust_models: bool
    runtimes: Sequence[str] | None


class HintKeywords(TypedDict, total=False):
    """What the GPU's driver is told."""

    gpu_perf_hint: str | None
    gpu_priority_hint: str | None


class ExecutionKeywords(HintKeywords, total=False):
    """How plans are executed."""

    num_threads: int | None
    cpu_affinity_policy: str | None
    opencl_queue_window_size: int | None
    opencl_record_launches: int | None


class MemoryKeywords(TypedDict, total=False):
    """Which OpenCL memory plans are made for."""

    memory: str | None


class ArtifactKeywords(MemoryKeywords, total=False):
    """What a model is loaded with."""

    tuned: File | None
    kernels: File | None
    selection: File | None


def names_of(keywords: type[Any]) -> tuple[str, ...]:
    """The names of a group, those of the groups within it first."""
    return tuple(keywords.__annotations__)


def accepts(keywords: type[Any], **defaults: Any) -> Callable[[Function], Function]:
    """Gives a function, as `**given`, every keyword of a group: its value, else its default, which is None as a rule.

    The function's signature names them, and any other keyword is a TypeError, as if each were written out.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        more = [_parameter(name, hint, defaults.get(name)) for name, hint in keywords.__annotations__.items()]
        signature = own.replace(parameters=[*list(own.parameters.values())[:-1], *more])

        @functools.wraps(function)
        def called(*arguments: Any, **given: Any) -> Any:
            for name in given.keys() - signature.parameters.keys():
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {name!r}")
            return function(*arguments, **{each.name: each.default for each in more} | given)

        called.__signature__ = signature  # type: ignore[attr-defined]
        return called  # type: ignore[return-value]

    return decorate


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    annotation = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
