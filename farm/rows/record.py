"""What rows are made of: records that never change, and figures that JSON can hold."""

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _finite_or_none(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Figure = Annotated[float | None, BeforeValidator(_finite_or_none)]


class Record(BaseModel):
    """Base of what a row holds."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
