"""What the service shows of other hosts: reports, artifacts, runs and nights, each with its host, and only those."""

import contextlib
import re
from pathlib import Path

import httpx
import pytest
from sqlalchemy import update

from farm.jobs.sharing.share import share_results
from farm.report.kept_nights import written_reports
from farm.report.write import write_reports
from farm.serve.place_source import FOLDER, PlaceSource
from farm.serve.service import FarmService
from farm.store import Store, schema
from farm.store.shared_place import SharedPlace
from tests.farm.report import nights
from tests.farm.rows.nightly_rows import nightly_case
from tests.farm.serve.rack import HOSTILE, FolderOfHost, Rack, service_of_rack, serving
from tests.farm.test_artifacts import publish


@pytest.fixture
def beta(tmp_path: Path) -> FolderOfHost:
    """A host with a report and artifacts, and what is nobody's business."""
    folder = tmp_path / "beta"
    write_reports(nights.night(3, nights.PHONES[:1]), folder / "reports" / "of beta")
    (folder / "reports/of beta/assets/charts.js").write_text("alert(1)")
    (folder / "reports/of beta/evil.js").write_text("alert(1)")
    (folder / "reports/of beta/secret.key").write_text("x")
    (folder / "reports/verdict.json").write_text("{}")
    publish(folder / "build" / "lib" / "opencl" / "host")
    (folder / "devices.yml").write_text("devices: {}")
    return FolderOfHost("beta & co", folder)


@pytest.fixture
def service(beta: FolderOfHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarmService:
    here = tmp_path / "here"
    write_reports(nights.night(3, nights.PHONES[:1]), here / "reports" / "of this one")
    publish(here / "build" / "lib" / "opencl" / "host")
    monkeypatch.chdir(here)
    return service_of_rack(Rack(3), here, others=[beta])


@pytest.mark.slow
def test_reports_of_all_hosts_are_read_with_our_scripts_alone(client: httpx.Client, beta: FolderOfHost) -> None:
    found = {one["host"]: one for one in client.get("/api/reports").json()["reports"]}
    assert {host: one["name"] for host, one in found.items()} == {"": "of this one", "beta & co": "of beta"}
    address = found["beta & co"]["address"]
    assert f'href="{address}"' in client.get("/reports").text and "beta &amp; co" in client.get("/reports").text
    page = client.get(address)
    assert page.content == (beta.folder / "reports/of beta/index.html").read_bytes()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == client.get("/reports/x/").headers["content-security-policy"]
    ours = client.get("/assets/charts.js").content
    assert client.get(f"{address}assets/charts.js").content == ours != b"alert(1)"
    assert client.get(f"{address}night.json").json()["run"]
    for path in (
        "evil.js",
        "secret.key",
        "assets/evil.js",
        "%2e%2e/%2e%2e/devices.yml",
        "none.html",
    ):
        assert client.get(f"{address}{path}").status_code == 404, path
    assert client.get("/hosts/nobody/reports/x/").status_code == 404
    assert client.post(address, content=b"").status_code == 405, "is only read"


@pytest.mark.slow
def test_artifacts_of_all_hosts_can_be_downloaded(client: httpx.Client, beta: FolderOfHost) -> None:
    found = client.get("/api/artifacts").json()["artifacts"]
    assert sorted(one["host"] for one in found) == ["", "", "beta & co", "beta & co"]
    for one in found:
        got = client.get(one["address"])
        folder = beta.folder if one["host"] else Path()
        assert got.content == (folder / one["file"]).read_bytes() and "attachment" in got.headers["content-disposition"]
        assert one["sets"][0]["fingerprint"]["soc"] and one["size_bytes"] == len(got.content)
    page = client.get("/artifacts").text
    assert page.count("beta &amp; co") == 2 and page.count("this one") == 2
    for path in ("devices.yml", "build/../devices.yml", "/etc/passwd", "%2fetc%2fpasswd"):
        assert client.get(f"/hosts/beta%20%26%20co/artifacts/{path}").status_code == 404, path


@pytest.mark.slow
def test_a_host_that_is_gone_leaves_its_entries_out_with_a_note(
    client: httpx.Client, beta: FolderOfHost, service: FarmService
) -> None:
    address = client.get("/api/artifacts").json()["artifacts"][-1]["address"]
    beta.error = f"did not answer {HOSTILE}"
    service.others.look()
    for page in ("/reports", "/artifacts"):
        text = client.get(page).text
        assert "left out: beta &amp; co, which did not answer &lt;img" in text and "<img" not in text
        assert "of beta" not in text and len(re.findall("this one", text)) >= 1
        assert client.get(f"/api{page}").json()["notes"] == [f"left out: beta & co, which {beta.error}"]
    assert client.get(address).status_code == 502, "was asked for before the note"


@pytest.mark.slow
def test_what_hosts_left_in_a_place_is_shown(place: str, beta: FolderOfHost, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    with contextlib.chdir(beta.folder):
        host = share_results(place, beta.folder / "none", lambda _: None).host
    with contextlib.chdir(here):
        source = PlaceSource(SharedPlace(place))
        service = service_of_rack(Rack(1), here, others=[source])
        with serving(service) as address, httpx.Client(base_url=address, timeout=60) as client:
            found = client.get("/api/artifacts").json()["artifacts"]
            assert {one["host"] for one in found} == {host} and len(found) == 2
            for one in found:
                assert client.get(one["address"]).content == (beta.folder / one["file"]).read_bytes()
            assert client.get(f"/hosts/{host}/artifacts/devices.yml").status_code == 404
        for path in FOLDER.iterdir():
            path.unlink()
        (Path(place) / "objects").mkdir(parents=True, exist_ok=True)
        damaged = SharedPlace(place)
        digest = next(d for name, d in damaged.files_of("hosts", host).items() if name.endswith("tuned.bin"))
        source._place._files.pipe_file(source._place._path("objects", digest), b"x")
        service.others.look()
        assert [each.kind for each in service.others.snapshot.hosts[host].artifacts] == ["compiled kernels"]
        assert f"objects/{digest} is damaged" in service.others.snapshot.notes[0]


def test_nights_and_runs_of_hosts_with_one_store(tmp_path: Path, postgresql_url: str, own_folder: Path) -> None:
    """Two hosts have nights of their own; each is shown, with its host."""
    for host, name, unit in (("alpha", "lab a", "phone-000"), ("beta", HOSTILE, "phone-001"), ("alpha", "lab a", "x")):
        with Store.open(postgresql_url) as store:
            run = store.begin(name, f"farm nightly {name}")
            store.add(run, [nightly_case(unit=unit)])
            store.end(run)
            with store.writing() as connection:
                of_host = update(schema.runs).where(schema.runs.c.id == run)
                connection.execute(of_host.values(process=f"{host} boot 1 1"))
    service = service_of_rack(Rack(3), own_folder, store=postgresql_url)
    with serving(service) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert [run["host"] for run in client.get("/api/runs").json()["runs"]] == ["alpha", "beta", "alpha"]
        page = client.get("/runs").text
        assert page.count('<td data-name="Host">alpha') == 2 and page.count('<td data-name="Host">beta') == 1
        latest = client.get("/api/night").json()
        of_beta = latest["latest"][1]["name"]
        assert latest["night"]["run"] == 3
        assert [(one["run"], one["host"]) for one in latest["latest"]] == [(3, "alpha"), (2, "beta")]
        page = client.get("/night").text
        (other,) = re.findall(r'href="(/night\?name=[^"]+)"', page)
        assert "on beta" in page and "<img" not in page
        page = client.get(other.replace("&amp;", "&")).text
        assert (
            "on beta" in page
            and "lab a" in page
            and client.get("/api/night", params={"name": of_beta}).json()["night"]["run"] == 2
        )
        units = {
            name: {one["unit"] for one in client.get("/api/history", params={"night": name}).json()["series"]}
            for name in ("", of_beta)
        }
        assert units == {"": {"phone-000", "x"}, of_beta: {"phone-001"}}
        assert "nightly" in client.get("/units/phone-001").text
        assert client.get("/history", params={"night": of_beta, "unit": "phone-001"}).text.count("data-chart") > 0
        assert client.get("/night?name=none").status_code == 200


def test_reports_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    assert written_reports(tmp_path / "none") == []
