"""A user without a name or a home folder, as containers have, gets one line where either is needed."""

import pwd
from pathlib import Path
from typing import NoReturn

import pytest

from farm import host_system
from farm.cluster import certificates
from farm.config.inventory import Unit, load_inventory
from farm.serve import tokens
from farm.transport import ssh_config
from runtime.errors import ConfigError

NO_HOME = r"~: user \d+ has no home folder here; set HOME"


def unknown(_: object) -> NoReturn:
    raise KeyError("uid not found")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `docker run --user 1234` gives: no entry in /etc/passwd, and no variables of a log-in."""
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("nobody")
def test_without_a_home_folder_an_error_says_what_to_do() -> None:
    assert host_system.user_name() == ""
    unit = Unit("rock", "ssh", "rk3399", "Rock", ("arm64-v8a",), address="rock.lan")
    for need in (
        host_system.home_folder,
        tokens.default_file,
        certificates.default_folder,
        lambda: ssh_config.resolve_target(unit),
    ):
        with pytest.raises(ConfigError, match=NO_HOME):
            need()


@pytest.mark.usefixtures("nobody")
def test_ssh_needs_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^rock: ssh needs a name for user \d+, who has none here; set USER$"):
        ssh_config.resolve_host("rock", "me@rock.lan")
    monkeypatch.setenv("USER", "me")
    assert ssh_config.resolve_host("rock", "rock.lan").username == "me"


def test_another_user_s_home_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "devices.yml"
    path.write_text("devices:\n  rock:\n    address: rock.lan\n    key_file: ~no-such-user/key\n")
    with pytest.raises(
        ConfigError, match=r"yml:4: devices.rock.key_file: ~no-such-user/key: there is no user 'no-such"
    ):
        load_inventory(path)
