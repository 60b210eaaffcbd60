"""The replay of searches that build ahead: a compiler beside the device hides what it builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import build_ahead
from benchmarks.recording import Recording
from tuner.build_ahead import BuildAhead

DATA = Path(__file__).parents[1] / "tuner/data/squeezenet_v11_intel.json.gz"


@pytest.mark.slow
def test_a_replay_tells_what_was_hidden() -> None:
    off, ahead = (build_ahead.replayed(DATA, 0.1, mode) for mode in (BuildAhead.OFF, BuildAhead.ON))
    assert "hidden" in ahead and "hidden" not in off
    assert "launches take 1.00 times as long" in ahead
    assert int(ahead.split()[0]) >= int(off.split()[0])


def test_trials_take_as_much_longer_as_said() -> None:
    recording, other = Recording(DATA), Recording(DATA)
    launch = recording.launches[0]
    candidate = next(iter(recording.samples[launch.key]))
    plain = other(other.launches[0], candidate, 3)
    longer = build_ahead.LongerTrials(recording, 0.5)(launch, candidate, 3)
    assert longer.device_s == pytest.approx(plain.device_s + 0.5)


def test_a_file_that_is_not_there_is_refused() -> None:
    assert CliRunner().invoke(build_ahead.main, ["--replay", "nothing.gz"]).exit_code == 2
