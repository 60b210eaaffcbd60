"""The types of the keys in deployment files and devices.yml: what each accepts, and the error for anything else."""

import math
import re
from collections.abc import Collection
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

Abi = Literal["host", "arm64-v8a", "armeabi-v7a", "arm64", "armhf"]

MAX_DIMENSION = 2**31 - 1
MOST_NAME = 100
SAFE_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{MOST_NAME - 1}}}")

Items = TypeVar("Items", bound=Collection[Any])


def as_list(value: Any) -> Any:
    """Accepts a single text for a list of one, as MACE does."""
    return [value] if isinstance(value, str) else value


def not_empty(value: Items) -> Items:
    """Refuses an empty list or mapping."""
    if not value:
        raise ValueError("at least one is needed")
    return value


def split_text(value: Any) -> Any:
    """`1,3,224,224` as a list of its parts; anything else unchanged."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def safe_name(value: str) -> str:
    """Refuses what cannot name a file."""
    if not SAFE_NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} cannot name a file; use letters, digits, '_', '-' and '.', at most {MOST_NAME} characters"
        )
    return value


def _soc_key(value: str) -> str:
    key = value.lower()
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", key):
        raise ValueError(f"{value!r} is no SoC; use letters, digits, '_' and '-'")
    return key


def _ascending(value: tuple[float, float]) -> tuple[float, float]:
    if not (math.isfinite(value[0]) and math.isfinite(value[1]) and value[0] < value[1]):
        raise ValueError(f"a range is low,high with low < high, not {value[0]:g},{value[1]:g}")
    return value


def _loadable(value: str) -> str:
    """Refuses a location that cannot be fetched."""
    scheme, separator, _ = value.partition("://")
    if separator and scheme not in ("zoo", "http", "https"):
        raise ValueError(f"{scheme}:// is not supported; use a path, http://, https:// or zoo://")
    if scheme in ("http", "https") and separator and not urlsplit(value).hostname:
        raise ValueError(f"{value!r} names no host")
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError("a SHA-256 checksum is 64 hexadecimal digits")
    return value.lower()


SafeName = Annotated[str, AfterValidator(safe_name)]
SocKey = Annotated[str, AfterValidator(_soc_key)]
Location = Annotated[str, Field(min_length=1), AfterValidator(_loadable)]
Checksum = Annotated[str, AfterValidator(_sha256)]
Text = Annotated[str, Field(min_length=1)]
Dimension = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
Shape = Annotated[tuple[Dimension, ...], BeforeValidator(split_text)]
Range = Annotated[tuple[float, float], BeforeValidator(split_text), AfterValidator(_ascending)]
Abis = Annotated[tuple[Abi, ...], BeforeValidator(split_text), AfterValidator(not_empty)]
Similarity = Annotated[float, Field(ge=0.0, le=1.0)]
