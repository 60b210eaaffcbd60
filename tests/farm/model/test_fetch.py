"""Models and arrays from files, the zoo and HTTP servers, checked and cached."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
import pytest

from farm.config import deployment
from farm.config.deployment import Input
from farm.model import fetch
from farm.model.fetch import Fetcher
from runtime import zoo
from runtime.errors import ConfigError

X = (Input("x", (1, 4), "float32", "NONE", (-1.0, 1.0)),)
CONTENT = b"the model's bytes" * 1000
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()
ZOO_URL = "zoo://mobilenet_v1?width=0.25&size=32&classes=10"


class Server(ThreadingHTTPServer):
    """A loopback server; `requests` counts the bodies that it sent, `content` and `etag` may be changed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.etag, self.bodies = CONTENT, "", 0
        self.announced: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path == "/moved":
            self._answer(302, {"Location": "/model"})
        elif self.path != "/model":
            self._answer(404, {"Content-Length": "0"})
        elif self.server.etag and self.headers["If-None-Match"] == self.server.etag:
            self._answer(304, {})
        else:
            self.server.bodies += 1
            length = len(self.server.content) if self.server.announced is None else self.server.announced
            headers = {"Content-Length": str(length)} if length >= 0 else {}
            self._answer(200, headers | ({"ETag": self.server.etag} if self.server.etag else {}))
            self.wfile.write(self.server.content)

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def make_fetcher(tmp_path: Path, location: str, extra: str = "", platform: str = "onnx", **options: object) -> Fetcher:
    path = tmp_path / "net.yml"
    path.write_text(
        f"library_name: lib\ntarget_abis: host\nmodels:\n  net:\n    platform: {platform}\n"
        f"    model_file_path: {location}\n{extra}    runtime: cpu\n    subgraphs:\n"
        "      - {input_tensors: x, input_shapes: '1,4', output_tensors: y, validation_inputs_data: [x.npy]}\n"
    )
    return Fetcher(deployment.load(path), tmp_path / "cache", **options)  # type: ignore[arg-type]


def refusal(fetcher: Fetcher) -> str:
    with pytest.raises(ConfigError) as caught:
        fetcher.model_file("net")
    message = str(caught.value)
    assert message.split("net.yml:")[1].startswith("6: models.net.model_file_path: ")
    assert "\n" not in message
    return message


def files_of(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def with_checksum(checksum: str) -> str:
    return f"    model_sha256_checksum: {checksum}\n"


def test_local_path_starts_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    monkeypatch.chdir("/")
    assert make_fetcher(tmp_path, "net.onnx", with_checksum(CHECKSUM)).model_file("net") == tmp_path / "net.onnx"


def test_a_missing_local_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert refusal(make_fetcher(tmp_path, "none.onnx")).endswith("none.onnx does not exist")
    assert refusal(make_fetcher(tmp_path, ".")).endswith("is not a file")


def test_a_local_file_with_another_checksum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(CONTENT + b"!")
    message = refusal(make_fetcher(tmp_path, "net.onnx", with_checksum(CHECKSUM)))
    assert f"not {CHECKSUM} as model_sha256_checksum says" in message


def caffe_fetcher(tmp_path: Path, checksum: str) -> Fetcher:
    weights = f"    weight_file_path: net.caffemodel\n    weight_sha256_checksum: {checksum}\n"
    return make_fetcher(tmp_path, "net.prototxt", weights, platform="caffe")


def test_weights_in_a_file_of_their_own_have_a_checksum_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "net.caffemodel").write_bytes(CONTENT)
    assert caffe_fetcher(tmp_path, CHECKSUM).weight_file("net") == tmp_path / "net.caffemodel"
    with pytest.raises(ConfigError) as caught:
        caffe_fetcher(tmp_path, "0" * 64).weight_file("net")
    problem = f"net.caffemodel has the checksum {CHECKSUM}, not {'0' * 64} as weight_sha256_checksum says"
    assert str(caught.value).endswith(f"net.yml:7: models.net.weight_file_path: {problem}")


def test_a_model_that_holds_its_weights_has_no_file_of_them(tmp_path: Path) -> None:
    assert make_fetcher(tmp_path, "net.onnx").weight_file("net") is None


@pytest.mark.slow
def test_zoo_model_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_fetcher(tmp_path, ZOO_URL).model_file("net")
    onnx.checker.check_model(onnx.load(path))
    monkeypatch.setattr(zoo, "from_url", lambda url: pytest.fail("built again"))
    assert make_fetcher(tmp_path, ZOO_URL).model_file("net") == path


@pytest.mark.slow
def test_zoo_model_is_built_anew_when_the_zoo_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_fetcher(tmp_path, ZOO_URL).model_file("net")
    monkeypatch.setattr(fetch, "_zoo_source_hash", lambda: "another")
    assert make_fetcher(tmp_path, ZOO_URL).model_file("net") != path


def test_mistakes_in_a_zoo_url_name_the_key(tmp_path: Path) -> None:
    assert "did you mean 'mobilenet_v1'" in refusal(make_fetcher(tmp_path, "zoo://mobilnet_v1"))
    assert "unknown option 'widht'" in refusal(make_fetcher(tmp_path, "zoo://mobilenet_v1?widht=1"))


def test_download_with_a_checksum_is_asked_for_once(tmp_path: Path, server: Server) -> None:
    location, extra = f"{server.url}/model", with_checksum(CHECKSUM.upper())
    path = make_fetcher(tmp_path, location, extra).model_file("net")
    assert path.read_bytes() == CONTENT
    server.content = b"changed"
    assert make_fetcher(tmp_path, location, extra).model_file("net") == path
    assert server.bodies == 1


@pytest.mark.slow
def test_damaged_copy_in_the_cache_is_fetched_again(tmp_path: Path, server: Server) -> None:
    fetcher = make_fetcher(tmp_path, f"{server.url}/model", with_checksum(CHECKSUM))
    fetcher.model_file("net").write_bytes(b"damaged")
    assert fetcher.model_file("net").read_bytes() == CONTENT


def test_download_with_a_wrong_checksum_is_not_kept(tmp_path: Path, server: Server) -> None:
    message = refusal(make_fetcher(tmp_path, f"{server.url}/model", with_checksum("0" * 64)))
    assert f"has the checksum {CHECKSUM}, not {'0' * 64}" in message
    assert files_of(tmp_path) == []


@pytest.mark.slow
def test_without_a_checksum_the_server_says_whether_it_changed(tmp_path: Path, server: Server) -> None:
    server.etag = '"1"'
    fetcher = make_fetcher(tmp_path, f"{server.url}/model")
    assert fetcher.model_file("net").read_bytes() == CONTENT
    assert fetcher.model_file("net").read_bytes() == CONTENT
    assert server.bodies == 1
    server.content, server.etag = b"new", '"2"'
    assert fetcher.model_file("net").read_bytes() == b"new"
    assert server.bodies == 2


@pytest.mark.slow
def test_server_without_etags_is_asked_each_time(tmp_path: Path, server: Server) -> None:
    fetcher = make_fetcher(tmp_path, f"{server.url}/model")
    fetcher.model_file("net")
    server.content = b"new"
    assert fetcher.model_file("net").read_bytes() == b"new"


@pytest.mark.slow
@pytest.mark.parametrize("notes", [b"", b"[1]", b'{"If-None-Match": 3}', b"\xff"])
def test_damaged_conditions_cause_a_new_download(tmp_path: Path, server: Server, notes: bytes) -> None:
    server.etag = '"1"'
    fetcher = make_fetcher(tmp_path, f"{server.url}/model")
    path = fetcher.model_file("net")
    path.with_suffix(".json").write_bytes(notes)
    assert fetcher.model_file("net").read_bytes() == CONTENT
    assert server.bodies == 2


def test_redirect_is_followed(tmp_path: Path, server: Server) -> None:
    assert make_fetcher(tmp_path, f"{server.url}/moved").model_file("net").read_bytes() == CONTENT


def test_progress_is_reported_while_downloading(tmp_path: Path, server: Server) -> None:
    calls: list[tuple[int, int | None]] = []
    fetcher = make_fetcher(tmp_path, f"{server.url}/model", progress=lambda *call: calls.append(call))
    fetcher.model_file("net")
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert calls == sorted(calls)


@pytest.mark.slow
def test_a_download_above_the_limit_is_refused_announced_or_not(tmp_path: Path, server: Server) -> None:
    fetcher = make_fetcher(tmp_path, f"{server.url}/model", max_download_bytes=1000)
    assert f"has {len(CONTENT)} bytes, more than the limit of 1000" in refusal(fetcher)
    server.announced = -1
    assert "sends more than the limit of 1000 bytes" in refusal(fetcher)
    assert files_of(tmp_path) == []


def test_truncated_download_is_not_kept(tmp_path: Path, server: Server) -> None:
    server.announced = len(CONTENT) + 10
    assert "cannot be fetched" in refusal(make_fetcher(tmp_path, f"{server.url}/model"))
    assert files_of(tmp_path) == []


@pytest.mark.slow
def test_an_error_status_and_an_unreachable_server_are_errors(tmp_path: Path, server: Server) -> None:
    assert "HTTP status 404" in refusal(make_fetcher(tmp_path, f"{server.url}/none"))
    fetcher = make_fetcher(tmp_path, f"{server.url}/model")
    fetcher.model_file("net")
    server.shutdown()
    server.server_close()
    assert refusal(fetcher).endswith("; model_sha256_checksum would let the copy in the cache serve")


@pytest.mark.slow
def test_slow_server_is_given_up(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "READ_TIMEOUT_S", 0.1)
    server.announced = len(CONTENT) + 10
    monkeypatch.setattr(Handler, "do_GET", lambda handler: threading.Event().wait(1.0))
    assert "cannot be fetched: timed out" in refusal(make_fetcher(tmp_path, f"{server.url}/model"))


def test_validation_inputs_are_read_and_checked(tmp_path: Path) -> None:
    fetcher = make_fetcher(tmp_path, "net.onnx")
    array = np.arange(4, dtype=np.float32)[None]
    np.save(tmp_path / "x.npy", array)
    inputs = fetcher.validation_inputs("net", X)
    assert list(inputs) == ["x"]
    assert np.array_equal(inputs["x"], array)
    assert not isinstance(inputs["x"], np.memmap)


ARRAYS = {
    "shape": (np.zeros((4, 1), np.float32), "holds float32 [4, 1]; the input 'x' is float32 [1, 4]"),
    "type": (np.zeros((1, 4)), "holds float64 [1, 4]; the input 'x' is float32 [1, 4]"),
    "NaN": (np.full((1, 4), np.nan, np.float32), "holds NaN"),
    "objects": (np.array([[1, "a", None, {}]], dtype=object), "is not a NumPy .npy file"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_unfit_arrays_are_refused(tmp_path: Path, name: str) -> None:
    array, message = ARRAYS[name]
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ConfigError) as caught:
        make_fetcher(tmp_path, "net.onnx").validation_inputs("net", X)
    assert "net.yml:9: models.net.subgraphs[0].validation_inputs_data[0]: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04", b"x" * 1000])
def test_files_that_are_no_arrays_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ConfigError, match=r"x.npy is not a NumPy .npy file"):
        make_fetcher(tmp_path, "net.onnx").validation_inputs("net", X)


def test_an_array_whose_header_claims_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "x.npy").open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1 << 20)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ConfigError, match=r"x.npy is not a NumPy .npy file"):
        make_fetcher(tmp_path, "net.onnx").validation_inputs("net", X)
