"""Makes text from outside (devices, model files, programs) safe to show on the screen and in reports.

Control characters would let it steer a terminal, forge lines of a report, or reverse the direction of what stands
beside it; everything that is shown passes through here once, at the latest where it is printed.
"""

MAX_WORD = 80


def one_line(text: str) -> str:
    """The text in one line: blanks for line ends and tabs, escapes such as `\\x1b` for what cannot be printed."""
    if text.isprintable():
        return text
    line = " ".join(text.splitlines())
    return "".join(c if c.isprintable() else " " if c == "\t" else repr(c)[1:-1] for c in line)


def word(text: object, max_characters: int = MAX_WORD) -> str:
    """A value as short text: one line without surrounding blanks, cut with `...` where it is too long."""
    line = " ".join(one_line(str(text)[: 8 * max_characters]).split())
    return line if len(line) <= max_characters else f"{line[: max_characters - 3]}..."
