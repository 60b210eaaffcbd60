"""What farmrt said of a unit, as a file: given by a user, or stored by the jobs that ran there.

The stored files are `build/targets/<SoC>.json`, one for each SoC that was ever worked on. Each holds what
`farmrt probe` prints, with a member `soc`.
"""

import contextlib
import json
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from farm import atomic_file, soc
from farm.config.fields import SAFE_NAME, Abi
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from runtime.errors import ConfigError, FarmError
from runtime.host.regular_file import open_regular

FOLDER = Path("build/targets")
MAX_FILE_BYTES = 1024**2


def read_target_file(path: Path) -> tuple[Unit, ProbeAnswer]:
    """A unit and its probe from the JSON that `farmrt probe` printed; a member `soc` may be added to it."""
    try:
        with open_regular(path) as file:
            probe = json.loads(file.read(MAX_FILE_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path}: not JSON; write there what `farmrt probe` prints on the unit") from None
    if not (isinstance(probe, dict) and isinstance(probe.get("opencl"), dict) and isinstance(probe.get("abi"), str)):
        raise ConfigError(f"{path}: not what `farmrt probe` prints: 'abi' and 'opencl' are missing")
    key = str(probe.get("soc", soc.UNKNOWN))
    try:
        answer = ProbeAnswer.model_validate({"cpu": {}, **probe})
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ConfigError(f"{path}: not all that `farmrt probe` prints: {where!r} is missing or wrong") from None
    name = path.stem if SAFE_NAME.fullmatch(path.stem) else "target"
    known: tuple[Abi, ...] = get_args(Abi)
    abi: Abi = next((each for each in known if each == answer.abi), "host")  # of a host farmrt says another name
    return Unit(name=name, transport="file", soc=key, model=name, abis=(abi,)), answer


def store(unit: Unit, probe: ProbeAnswer, folder: Path = FOLDER) -> None:
    """Stores what a unit's farmrt said for its SoC, where that is known; a file that cannot be written is no error.

    Of this machine nothing is stored: it can always be asked.
    """
    if unit.kind.is_local or unit.soc == soc.UNKNOWN:
        return
    key = soc.normalise(unit.soc)
    with contextlib.suppress(FarmError):
        content = json.dumps({**probe.model_dump(mode="json"), "soc": key}, indent=1).encode()
        atomic_file.write(folder / f"{key}.json", content)


def stored(key: str, folder: Path = FOLDER) -> ProbeAnswer | None:
    """What is stored of a SoC; None where nothing is, or it is damaged."""
    try:
        return read_target_file(folder / f"{key}.json")[1]
    except ConfigError:
        return None


def stored_socs(folder: Path = FOLDER) -> list[str]:
    """The SoCs of which something is stored, in the order of the alphabet."""
    with contextlib.suppress(OSError):
        return sorted(path.stem for path in folder.glob("*.json") if not path.name.startswith("."))
    return []
