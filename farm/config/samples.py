"""The sample deployment files that come with farm, one for each network of `runtime.zoo`; `zoo://NAME` names them."""

from pathlib import Path

from farm.config.suggestion import suggestion
from runtime.errors import ConfigError

FOLDER = Path(__file__).with_name("samples")
SCHEME = "zoo://"


def names() -> list[str]:
    """The samples that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def find(name: str) -> Path:
    """The file of a sample; raises ConfigError where there is none."""
    if name not in names():
        copy = "; to change its size, copy it with `farm zoo deployment`" if "?" in name else ""
        raise ConfigError(f"{SCHEME}{name}: no such sample{suggestion(name, names())}{copy}")
    return FOLDER / f"{name}.yml"


def deployment_file(text: str, folder: Path = Path()) -> Path:
    """The deployment file that a user names: a sample as `zoo://NAME`, else a path from `folder`."""
    return find(text.removeprefix(SCHEME)) if text.startswith(SCHEME) else folder / text
