"""`farm nightly` on lab.yml, as the tests of nights on emulated phones call it."""

import json
from typing import Any

from farm import cli


def nightly(capsys: Any, *more: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, verdict, and what was said beside it."""
    capsys.readouterr()
    status = cli.call(["nightly", "lab.yml", "--json", *more])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else {}, captured.err
