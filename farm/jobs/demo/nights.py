"""The nights of the demonstration: two emulated phones of one model, a hot night, and one in which both are slow."""

import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.config import deployment
from farm.config.inventory import Unit
from farm.emulation import EmulatedPhone, PhoneSettings
from farm.emulation.phone_unit import private_adb_server, unit_of_phone
from farm.jobs.fleet.dispatch import FLEET
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.nightly import run as nightly_run
from farm.jobs.nightly.matrix import nightly_job
from farm.nightly import configuration
from farm.nightly.night import Night
from farm.store.recorder import Recorder

NAME = "emulated_farm"
PHONES = ("left_phone", "right_phone")
COMMAND = "farm demo --only nights"
NIGHTS = 6  # four good ones before the last are the fewest that judge it
HOT_NIGHT, SLOW_NIGHT = 2, 5  # the first night is 0
HEAT = "throttle:status=4,at=shell,on=farmrt.*serve"  # a phone that is hot before is waited for
SLOWNESS = "slow:factor=2"
FILE = """\
name: {name}
models: [{model}]
runtimes: gpu
repeats: 4
rounds: 4
rest_seconds: 0.2
most_rests: 1
most_reruns: 4
seed: 1
"""


def measure_nights(
    model: Path, store_file: Path, commit: str, say: Callable[[str], None], progress: ProgressView = SILENT
) -> Iterator[Night]:
    """Each night, judged by those before it; the store is made anew. `commit` is what is tested."""
    remove_store(store_file)
    with TemporaryDirectory() as folder, _farm(Path(folder)) as (units, phones):
        nightly_file = Path(folder, "nightly.yml")
        nightly_file.write_text(FILE.format(name=NAME, model=model.resolve()))
        nightly = configuration.load(nightly_file)
        places = [(deployment.load(model), units)]
        for number in range(NIGHTS):
            say(f"night {number + 1} of {NIGHTS}{_inject(number, phones)}")
            keeper = Recorder(str(store_file), nightly_run.begun(nightly, COMMAND, commit), say)
            job = functools.partial(nightly_job, places, progress=progress)
            yield nightly_run.measure(keeper, nightly, job, FLEET.retries, say)
            for phone in phones:
                phone.clear_faults()


def remove_store(file: Path) -> None:
    """Deletes a store with what lies beside it: what SQLite has not merged yet, and the bundles of its nights."""
    for path in file.parent.glob(f"{file.name}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _inject(number: int, phones: Sequence[EmulatedPhone]) -> str:
    """What this night is like, and a word on it."""
    if number == HOT_NIGHT:
        phones[0].inject(HEAT)
        return f": {PHONES[0]} is hot"
    if number == SLOW_NIGHT:
        for phone in phones:
            phone.inject(SLOWNESS)
        return ": both phones have become slower, and no sensor tells"
    return ""


@contextmanager
def _farm(folder: Path) -> Iterator[tuple[list[Unit], list[EmulatedPhone]]]:
    """The phones, and each as a unit."""
    with ExitStack() as stack:
        port = stack.enter_context(private_adb_server(folder))
        phones = [
            stack.enter_context(EmulatedPhone(PhoneSettings(soc="sdm845", model="MI 8", serial=name, compute_units=1)))
            for name in PHONES
        ]
        yield [unit_of_phone(name, phone, port) for name, phone in zip(PHONES, phones, strict=True)], phones
