"""The host as a unit, and the choice of a transport."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import transport as transports
from farm.config.inventory import HOST, Unit
from farm.transport import local
from farm.transport.base import Transport
from farm.transport.local import LocalTransport
from runtime.errors import ConfigError, DeviceError
from tests.farm.transport.contract import DEADLINE_S, TransportContract


class TestLocal(TransportContract):
    @pytest.fixture
    def transport(self, tmp_path: Path) -> Iterator[Transport]:
        opened = LocalTransport(tmp_path / "unit")
        yield opened
        opened.close()


def test_connect_opens_the_units_own_folder(tmp_path: Path) -> None:
    opened = transports.connect(HOST, tmp_path)
    assert opened.run(["pwd"], DEADLINE_S).stdout.decode().strip() == str(tmp_path.resolve() / "host")
    assert (tmp_path / "host").stat().st_mode & 0o077 == 0


def test_a_file_that_arrives_changed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent").write_text("sent")
    monkeypatch.setattr(local, "_copy", lambda source, target, mode: target.write_text("else"))
    with pytest.raises(DeviceError, match=r"data: arrived with another content than .*/sent has"):
        LocalTransport(tmp_path / "unit").push({"data": tmp_path / "sent"})


def test_connect_refuses_a_transport_that_is_not_there(tmp_path: Path) -> None:
    phone = Unit(name="phone", transport="usb", soc="sdm845", model="MI 8", abis=("arm64-v8a",))
    with pytest.raises(ConfigError, match=r"phone: .*transport 'usb'"):
        transports.connect(phone, tmp_path)
