"""Pages, API and metrics of a made-up rack; who may change what, and what no other site may do."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from farm.cluster.queue import TaskReport
from farm.report.kept_nights import verdict_of
from farm.report.write import write_reports
from farm.serve import events
from farm.serve.app import API
from farm.serve.openapi import OPERATIONS, description
from farm.serve.rendering import ASSETS
from farm.serve.service import FarmService
from farm.store import Store
from farm.units.survey import UnitState
from runtime.errors import JobError
from tests.farm.report import nights
from tests.farm.rows.nightly_rows import nightly_case
from tests.farm.serve.rack import HOSTILE, Rack, job_report, service_of_rack, serving
from tests.farm.test_artifacts import publish

PAGES = (
    "/",
    "/units/phone-003",
    "/units/phone-009",
    "/runs",
    "/runs/2",
    "/night",
    "/history",
    "/reports",
    "/artifacts",
)


@pytest.fixture
def rack() -> Rack:
    return Rack(12)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two nights in its store, a run that goes on, a written report and artifacts."""
    folder = tmp_path_factory.mktemp("filled")
    with Store.open(str(folder / "farm.db")) as store:
        for seed in (1, 2):
            run = store.begin("lab", "farm nightly nightly.yml")
            store.add(run, [nightly_case(unit="phone-003", seed=seed, reason=HOSTILE)])
            store.end(run)
        store.begin("farm run", f"farm run {HOSTILE}")
    write_reports(nights.night(6, nights.PHONES[:1]), folder / "reports" / "usual")
    publish(folder / "build" / "lib" / "opencl" / "host")
    return folder


@pytest.fixture
def service(rack: Rack, filled: Path, own_folder: Path) -> FarmService:
    """A service of a copy of that folder, which is the working folder."""
    shutil.copytree(filled, own_folder, dirs_exist_ok=True)
    return service_of_rack(rack, own_folder)


@pytest.fixture
def token(service: FarmService) -> str:
    return service.tokens.add("alice")


def sign_in(client: httpx.Client, token: str) -> None:
    answer = client.post("/sign-in", data={"token": token})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and token not in cookie


def csrf(client: httpx.Client, page: str = "/units/phone-000") -> str:
    (found, *_) = re.findall(r'name="csrf" value="([^"]+)"', client.get(page).text)
    return str(found)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_pages_show_what_there_is_and_let_nothing_run(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert "<img" not in answer.text and "alert(2)</script>" not in answer.text and "\x1b" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "frame-ancestors 'none'" in policy
    assert not re.search(r"<script(?![^>]*(src=|application/json))|<[^>]*\s(on[a-z]+|style)=", answer.text)
    assert not re.search(r'(src|href)="(https?:)?//', answer.text)


@pytest.mark.slow
def test_style_elements_are_only_allowed_beside_charts(client: httpx.Client) -> None:
    found = {path: "unsafe-inline" in client.get(path).headers["content-security-policy"] for path in PAGES}
    assert [path for path, is_allowed in found.items() if is_allowed] == ["/history"]


@pytest.mark.slow
def test_units_say_who_has_them_and_why_not(client: httpx.Client) -> None:
    text = client.get("/").text
    assert "flashing a new driver" in text and "<b>bob</b> until" in text and "tune resnet50" in text
    assert "3 of the last 5 jobs failed" in text
    assert "in quarantine since" in client.get("/units/phone-009").text
    assert client.get("/units/nobody").status_code == 404


@pytest.mark.slow
def test_a_unit_s_page_has_its_jobs_and_health(client: httpx.Client) -> None:
    text = client.get("/units/phone-003").text
    assert "nightly" in text and "&lt;img src=x" in text and "Adreno (TM) 630" in text


@pytest.mark.slow
def test_a_run_has_a_page_that_the_list_links_to(client: httpx.Client) -> None:
    assert 'href="/runs/2"' in client.get("/runs").text
    text = client.get("/runs/2").text
    assert "farm nightly nightly.yml" in text and 'href="/units/phone-003"' in text and "&lt;img src=x" in text
    assert client.get("/runs/99").status_code == 400
    assert client.get("/api/runs/2").json()["results"][0]["unit"] == "phone-003"


@pytest.mark.slow
def test_the_night_and_its_history(client: httpx.Client) -> None:
    assert "Latency by model and SoC" in client.get("/night").text
    assert 'data-chart="chart-1"' in client.get("/history?unit=phone-003").text
    assert "No series" in client.get("/history?unit=nobody").text
    series = client.get("/api/history?unit=phone-003&metric=latency_ms").json()["series"]
    assert [one["unit"] for one in series] == ["phone-003"] and len(series[0]["chart"]["value"]) == 2
    assert client.get("/api/night").json()["night"]["run"] == 2


@pytest.mark.slow
def test_reports_are_served_and_nothing_beside_them(client: httpx.Client) -> None:
    assert "usual" in client.get("/reports").text
    page = client.get("/reports/usual/")
    assert page.status_code == 200 and "Latency by model and SoC" in page.text
    assert client.get("/reports/usual/assets/report.css").headers["content-type"].startswith("text/css")
    Path("reports/usual/secret.key").write_text("x")
    Path("reports/other").mkdir()
    Path("reports/other/index.html").write_text("not a report")
    Path("reports/usual/link.json").symlink_to(Path("farm.db").resolve())
    for path in (
        "usual/../../farm.db",
        "usual/%2e%2e/%2e%2e/tokens.json",
        "usual/secret.key",
        "usual/link.json",
        "usual/none.html",
        "other/",
        "../farm.db",
        "usual//etc/passwd",
    ):
        assert client.get(f"/reports/{path}").status_code == 404, path
    assert verdict_of(Path("reports/usual"))


@pytest.mark.slow
def test_artifacts_can_be_downloaded_and_no_other_file(client: httpx.Client) -> None:
    files = client.get("/api/artifacts").json()["artifacts"]
    assert files and all(one["sets"][0]["fingerprint"]["soc"] for one in files)
    for one in files:
        got = client.get(one["address"])
        assert got.content == Path(one["file"]).read_bytes() and "attachment" in got.headers["content-disposition"]
    assert "tuned parameters" in client.get("/artifacts").text
    for path in ("tokens.json", "build/../farm.db", "/etc/passwd", "%2fetc%2fpasswd"):
        assert client.get(f"/artifacts/{path}").status_code == 404


@pytest.mark.slow
def test_without_a_store_there_is_a_page_all_the_same(rack: Rack, own_folder: Path) -> None:
    pages = [path for path in PAGES if path != "/runs/2"]
    with serving(service_of_rack(rack, own_folder)) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert [client.get(path).status_code for path in pages] == [200] * len(pages)
        assert client.get("/api/night").json() == {"night": None}
        assert client.get("/metrics").status_code == 200


def test_the_api_has_what_the_page_has(client: httpx.Client) -> None:
    units = client.get("/api/units").json()["units"]
    assert len(units) == 12 and units[8]["state"] == "reserved" and units[8]["held_until"]
    one = client.get("/api/units/phone-009").json()
    assert one["health"]["quarantine"]["reason"] == "3 of 5" and one["temperatures"][0][1] == 39.0
    runs = client.get("/api/runs").json()
    assert [run["id"] for run in runs["running"]] == [3] and len(runs["runs"]) == 3
    assert client.get("/api/reports").json()["reports"][0]["name"] == "usual"
    assert client.get("/api/units/nobody").json() == {"error": {"message": "nobody: no such unit"}}
    assert client.get("/api/nothing").status_code == 404 and "error" in client.get("/api/nothing").json()


@pytest.mark.slow
def test_the_description_names_every_path_of_the_api(client: httpx.Client) -> None:
    routes = {
        (re.sub(r":\w+", "", route.path), method.lower())
        for route in API
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {
        (path.replace("{run}", "{run}"), each) for path, methods in description()["paths"].items() for each in methods
    }
    expanded = {
        (path.replace("{action}", action), method)
        for path, method in routes
        for action in (("reserve", "release", "check") if "{action}" in path else ("",))
    }
    assert described == expanded
    assert client.get("/api/openapi.json").json() == description()
    assert all(operation.summary.endswith(".") for operation in OPERATIONS)


# --- changes -------------------------------------------------------------------------


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.slow
def test_a_program_changes_units_with_a_token(client: httpx.Client, rack: Rack, token: str) -> None:
    asked = {"for": "2h", "reason": "flashing"}
    assert client.post("/api/units/phone-000/reserve", json=asked, headers=bearer(token)).status_code == 200
    assert client.post("/api/units/phone-006/reserve", json=asked, headers=bearer(token)).status_code == 409
    forced = client.post("/api/units/phone-006/reserve", json={**asked, "force": True}, headers=bearer(token))
    assert "reserved by alice" in forced.json()["text"]
    assert client.post("/api/units/phone-000/release", json={}, headers=bearer(token)).json()["text"]
    assert "files" in client.post("/api/units/phone-000/check", json={}, headers=bearer(token)).json()["text"]
    assert rack.asked[0] == ("reserve", "phone-000", 7200.0, "flashing", "alice", False)
    assert [call[0] for call in rack.asked] == ["reserve", "reserve", "reserve", "release", "check"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "body", ["[]", "{", '"x"', "{}", '{"for": "2 weeks", "reason": "x"}', '{"for": "2h"}', "[" * 20000]
)
def test_a_wrong_request_is_one_line(client: httpx.Client, rack: Rack, token: str, body: str) -> None:
    answer = client.post("/api/units/phone-000/reserve", content=body, headers=bearer(token))
    assert answer.status_code == 400 and answer.json()["error"]["message"] and rack.asked == []


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer farm_no"}, {"Authorization": "Basic YTpi"}])
def test_without_a_token_nothing_changes(client: httpx.Client, rack: Rack, token: str, headers: dict[str, str]) -> None:
    asked = {"for": "2h", "reason": "x"}
    assert client.post("/api/units/phone-000/reserve", json=asked, headers=headers).status_code == 401
    sign_in(client, token)
    assert client.post("/api/units/phone-000/reserve", json=asked, headers=headers).status_code == 401, (
        "no cookies here"
    )
    client.cookies.clear()
    assert client.post("/units/phone-000/release", data={"csrf": "x"}).status_code == 403
    assert client.post("/runs/3/cancel", data={}).status_code == 403
    assert client.get("/units/phone-000/release").status_code == 405
    assert rack.asked == []


@pytest.mark.slow
def test_a_person_reserves_and_is_told(client: httpx.Client, rack: Rack, service: FarmService, token: str) -> None:
    assert "Reserve</button>" not in client.get("/units/phone-000").text
    sign_in(client, token)
    form = {"csrf": csrf(client), "for": "1h", "reason": HOSTILE}
    answer = client.post("/units/phone-000/reserve", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/units/phone-000")
    page = client.get("/units/phone-000").text
    assert "reserved by alice" in page and "<img" not in page
    assert "reserved by alice" not in re.findall(r'class="said".*?</p>', client.get("/units/phone-000").text), "once"
    service.watcher.look()
    assert service.watcher.snapshot.units["phone-000"].report.state == UnitState.RESERVED
    client.post("/units/phone-006/reserve", data=form)
    assert "Not done: phone-006: held by" in client.get("/").text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"Origin": "https://evil.example"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({}, False),
        ({"Origin": "null"}, True),
    ],
)
def test_another_site_cannot_send_a_form(
    client: httpx.Client, rack: Rack, token: str, headers: dict[str, str], own: bool
) -> None:
    sign_in(client, token)
    form = {"csrf": csrf(client) if own else "guessed"}
    assert client.post("/units/phone-000/release", data=form, headers=headers).status_code == 403
    assert rack.asked == []
    same = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    assert client.post("/units/phone-000/release", data={"csrf": csrf(client)}, headers=same).status_code == 303


@pytest.mark.slow
def test_another_site_cannot_sign_a_browser_in(client: httpx.Client, token: str) -> None:
    assert client.post("/sign-in", data={"token": token}, headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.post("/sign-in", data={"token": "farm_no"}).status_code == 403
    assert "set-cookie" not in client.get("/").headers


@pytest.mark.slow
def test_a_revoked_token_ends_its_sessions(client: httpx.Client, service: FarmService, rack: Rack, token: str) -> None:
    sign_in(client, token)
    form = {"csrf": csrf(client)}
    service.tokens.revoke("alice")
    assert client.post("/units/phone-000/release", data=form).status_code == 403
    assert "Sign in</button>" in client.get("/").text and rack.asked == []


@pytest.mark.slow
def test_signing_out_ends_the_session(client: httpx.Client, token: str) -> None:
    sign_in(client, token)
    assert "Signed in as alice" in client.get("/").text
    form = {"csrf": csrf(client)}
    assert client.post("/sign-out", data={"csrf": "no"}).status_code == 403
    assert client.post("/sign-out", data=form).status_code == 303
    assert "Signed in" not in client.get("/").text


@pytest.mark.slow
def test_a_run_is_cancelled_only_where_its_process_is(
    client: httpx.Client, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("farm.store.recent.os.kill", lambda *both: sent.append(both))
    sign_in(client, token)
    assert "Cancel run 3" in client.get("/runs").text
    assert client.post("/runs/3/cancel", data={"csrf": csrf(client)}).status_code == 303
    assert len(sent) == 1 and "run 3: is told to end" in client.get("/runs").text
    assert client.post("/api/runs/1/cancel", json={}, headers=bearer(token)).status_code == 400, "has ended"
    assert client.post("/api/runs/99/cancel", json={}, headers=bearer(token)).status_code == 400
    assert len(sent) == 1
    monkeypatch.setattr("farm.store.process.platform.node", lambda: "elsewhere")
    assert "Cancel run" not in client.get("/runs").text


@pytest.mark.slow
def test_unknown_hosts_and_large_requests_are_refused(client: httpx.Client, token: str) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"Host": "127.0.0.1:8765"}).status_code == 200
    assert client.post("/sign-in", content=b"x" * 70_000).status_code == 413
    assert client.post("/sign-in", content=iter([b"x"])).status_code == 411


@pytest.mark.slow
def test_every_answer_has_the_headers(client: httpx.Client) -> None:
    for path in ("/", "/api/units", "/metrics", "/nope", "/assets/report.css", "/reports/usual/"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff" and "content-security-policy" in headers, path


@pytest.mark.slow
def test_assets(client: httpx.Client) -> None:
    assert {client.get(f"/assets/{name}").status_code for name in ASSETS} == {200}
    assert client.get("/assets/../app.py").status_code == 404


# --- metrics and events --------------------------------------------------------------


@pytest.mark.slow
def test_metrics(client: httpx.Client) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    states = {sample.labels["state"]: sample.value for sample in families["farm_units"].samples}
    assert states["ready"] == 7 and states["reserved"] == 1 and sum(states.values()) == 12
    assert len(families["farm_unit_temperature_celsius"].samples) == 12
    ages = {sample.labels["kind"]: sample.value for sample in families["farm_lease_age_seconds"].samples}
    assert set(ages) == {"job", "reservation"} and all(3590 < age < 3700 for age in ages.values())
    (rows,) = families["farm_rows"].samples
    assert (rows.labels, rows.value) == ({"job": "nightly", "status": "ok"}, 2)
    assert families["farm_runs_running"].samples[0].value == 1
    assert sum(sample.value for sample in families["farm_night_series"].samples) > 0


def told(text: str) -> dict[str, Any]:
    (data,) = re.findall(r"^data: (.*)$", text, re.MULTILINE)
    found: dict[str, Any] = json.loads(data)
    return found


def test_events_tell_each_change_once(rack: Rack, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "POLL_S", 0.001)
    monkeypatch.setattr(events, "ALIVE_S", 0.01)
    service = service_of_rack(rack, own_folder)
    watcher, shown = (
        service.watcher,
        events.Shown(lambda unit: str(unit.report.state), lambda job: job.count("running")),
    )

    async def listen() -> None:
        stream = events._changes(service, 0, shown)
        assert (await anext(stream)).startswith("retry:")
        assert len(told(await anext(stream))["units"]) == 12
        watcher.look()
        assert await anext(stream) == ": alive\n\n", "nothing has changed"
        rack.change("phone-001", state=UnitState.OFFLINE)
        watcher.look()
        assert told(await anext(stream))["units"] == {"phone-001": "offline"}
        rack.reports = rack.reports[1:]
        watcher.look()
        last = told(await anext(stream))
        assert last["units"] == {} and len(last["names"]) == 11
        rack.queue = [job_report(1, TaskReport("phone-001", "tiny", "waiting")), job_report(2)]
        service.queue.look()
        assert told(await anext(stream))["jobs"] == {"job1": 0, "job2": 0}
        rack.queue[0] = job_report(1, TaskReport("phone-001", "tiny", "running"))
        service.queue.look()
        assert told(await anext(stream))["jobs"] == {"job1": 1}
        rack.fault = JobError("the scheduler has gone")
        service.queue.look()
        gone = told(await anext(stream))
        assert (gone["names"], gone["error"]) == ([], "the scheduler has gone")

    asyncio.run(listen())
