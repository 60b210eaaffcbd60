"""Calls functions that users wrote, so that whatever they raise becomes one line that says where."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from runtime.errors import FarmError, ModelError

Result = TypeVar("Result")


def called(what: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """What the function returns; ModelError with `what` it is, what it raised, and in which line."""
    try:
        return function(*arguments)
    except FarmError:
        raise
    except Exception as error:  # code that others wrote may raise anything, and the user must see it as an error
        file = getattr(getattr(function, "__code__", None), "co_filename", "")
        raise ModelError(f"{what}: {raised(error, file)}") from None


def raised(error: BaseException, file: str) -> str:
    """`ValueError: no axes (my_ops.py:31)`: an exception, and the innermost line of a file that it came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    text = (str(error).splitlines() or [""])[0]
    where = f" ({Path(file).name}:{lines[-1]})" if lines else ""
    return f"{type(error).__name__}{f': {text}' if text else ''}{where}"
