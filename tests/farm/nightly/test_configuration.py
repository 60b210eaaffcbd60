"""nightly.yml: what it accepts, and how it refuses the rest."""

from pathlib import Path

import pytest

from farm.nightly import configuration
from farm.nightly.configuration import NightlyConfiguration
from farm.units.selection import Selection
from runtime.errors import ConfigError


def read(folder: Path, text: str) -> NightlyConfiguration:
    path = folder / "lab.yml"
    path.write_text(text)
    return configuration.load(path)


def test_keys_that_are_left_out_have_defaults(tmp_path: Path) -> None:
    found = read(tmp_path, "models: a.yml\n")
    assert (found.title, found.model_files, found.units) == ("lab", [tmp_path / "a.yml"], ())
    assert found.runtimes == ("cpu", "gpu") and list(found.settings) == ["default"]
    assert found.jobs == ("validate", "benchmark") and found.repeats % 2 == 0
    assert (found.baseline, found.seed, found.notify_command) == ("series", None, ())


def test_every_key_is_read(tmp_path: Path) -> None:
    text = """
name: pixels
models: [a.yml, sub/b.yml]
units:
  - {soc: [sdm845, sm8550], tag: quiet}
  - {device: host, one_per_soc: yes}
runtimes: gpu
settings:
  default: {}
  untuned: {tuned: none, kernels: none, memory: image}
jobs: [validate, tune_check]
repeats: 4
rounds: 20
warmup: 0
most_reruns: 2
budget_minutes: 1.5
rest_seconds: 5
most_rests: 1
baseline: release-1
seed: 7
commit: abc
notify_command: [notify, --verdict]
webhook: https://chat.lab/farm
webhook_secret_file: key
"""
    found = read(tmp_path, text)
    assert (found.webhook, found.secret_file) == ("https://chat.lab/farm", tmp_path / "key")
    assert found.title == "pixels" and found.runtimes == ("gpu",)
    assert [each.choice for each in found.units] == [
        Selection(socs=("sdm845", "sm8550"), tags=("quiet",)),
        Selection(devices=("host",), one_per_soc=True),
    ]
    assert found.settings["untuned"].memory == "image" and found.rest.max_repeats == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: []\n", "lab.yml:1: models: at least one is needed"),
        ("name: x\n", "lab.yml:1: models: this key is missing"),
        ("models: a.yml\nrepeats: 5\n", "lab.yml:2: repeats: 5 blocks cannot be half a and half b"),
        ("models: a.yml\nwebhook: chat.lab\n", "lab.yml:2: webhook: this is no web address; write https://HOST/PATH"),
        ("models: a.yml\nrepeat: 4\n", "lab.yml:2: repeat: unknown key, did you mean 'repeats'?"),
        (
            "models: a.yml\njobs: [benchmrk]\n",
            "lab.yml:2: jobs[0]: 'validate', 'benchmark' or 'tune_check' is expected",
        ),
        ("models: a.yml\nsettings: {}\n", "lab.yml:2: settings: at least one is needed"),
        ("models: a.yml\nsettings:\n  ../x: {}\n", "lab.yml:3: settings.../x: '../x' cannot name a file"),
        ("models: a.yml\nbudget_minutes: nan\n", "lab.yml:2: budget_minutes"),
        ("models: a.yml\nname: a/b\n", "lab.yml:2: name: 'a/b' cannot name a file"),
        ("models: a.yml\nrest_seconds: -1\n", "lab.yml:2: rest_seconds"),
    ],
)
def test_mistakes_are_reported_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/{said}"), caught.value
