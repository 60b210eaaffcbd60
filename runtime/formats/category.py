"""The category of an operator: whether it fixes the order of its tensors' axes, moves along, or keeps the source's.

    fixed           works on images in the order NCHW and nothing else: what it reads and writes has this format
    transposable    works in any order of axes once its arguments are rewritten: axes, pads, constants, shapes
    source          its result depends on the order of axes that the model was written in: a format's meaning ends here

It stands in the operator's row. Source format is always right, and a row's default.
"""

import dataclasses
import enum

from runtime.formats.rewriting import Rule


class FormatCategory(enum.StrEnum):
    """What an operator has to do with the order of axes; the module's docstring says what each means."""

    FIXED = "fixed format"
    TRANSPOSABLE = "transposable"
    SOURCE = "source format"


@dataclasses.dataclass(frozen=True)
class OperatorFormat:
    """Category of an operator, and the rule that rewrites a transposable one; the others have none."""

    category: FormatCategory
    rule: Rule | None = None


FIXED = OperatorFormat(FormatCategory.FIXED)
SOURCE = OperatorFormat(FormatCategory.SOURCE)


def transposable(rule: Rule) -> OperatorFormat:
    """The format of an operator whose arguments a rule rewrites."""
    return OperatorFormat(FormatCategory.TRANSPOSABLE, rule)
