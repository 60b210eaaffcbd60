"""What the service shows of a cluster: units by host, the queue, who may end a job, and its metrics."""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from farm.cluster import hosts
from farm.cluster.address import parse_cluster_address
from farm.cluster.hosts import HostLook
from farm.cluster.queue import TaskReport
from farm.cluster.unit_tasks import SeenUnit
from farm.serve.cluster_source import FORGOTTEN_S, GONE, ClusterSource, known_after, merged
from farm.serve.service import FarmService
from farm.serve.watcher import QueueWaits
from farm.units.health import HealthHistory, JobOutcome
from farm.units.survey import UnitState
from runtime.errors import JobError
from tests.farm.serve.rack import HOSTILE, Rack, job_report, service_of_rack, unit_report
from tests.farm.serve.test_app import bearer, csrf, sign_in

RUNS = TaskReport("phone-001", "resnet50", "running", "resnet50 (gpu): round 3")
WAITS = TaskReport("phone-002", HOSTILE, "waiting")
DASHBOARD = Path(__file__).parents[3] / "examples" / "grafana" / "farm.json"


@pytest.fixture
def rack() -> Rack:
    rack = Rack(6, ("alpha", "beta"))
    rack.queue = [job_report(1, RUNS, WAITS), job_report(2, WAITS)]
    return rack


@pytest.fixture
def service(rack: Rack, own_folder: Path) -> FarmService:
    return service_of_rack(rack, own_folder)


def test_units_say_which_host_has_them(client: httpx.Client) -> None:
    page = client.get("/").text
    assert page.count('data-host="alpha"') == 3 and '<select name="host">' in page and "<option>beta" in page
    assert "alpha" in client.get("/units/phone-000").text
    found = client.get("/api/units").json()
    assert {unit["name"]: unit["host"] for unit in found["units"]}["phone-001"] == "beta"
    assert found["hosts"] == {"alpha": "", "beta": ""}


@pytest.mark.slow
def test_a_host_that_does_not_answer_is_told_of(client: httpx.Client, rack: Rack, service: FarmService) -> None:
    rack.hosts["beta"] = f"does not answer {HOSTILE}"
    service.watcher.look()
    assert "beta does not answer &lt;img" in client.get("/").text
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    assert {each.labels["state"]: each.value for each in families["farm_hosts"].samples} == {"answers": 1, "silent": 1}


@pytest.mark.slow
def test_the_queue_says_whose_jobs_run_and_wait(client: httpx.Client) -> None:
    page = client.get("/queue").text
    assert "user1@lab" in page and "nightly" in page and "resnet50 on phone-001" in page
    assert "(resnet50 (gpu): round 3)" in page
    assert "&lt;img src=x" in page and "<img" not in page and "Cancel</button>" not in page
    jobs = client.get("/api/jobs").json()["jobs"]
    assert [job["id"] for job in jobs] == ["job1", "job2"] and jobs[0]["tasks"][0]["state"] == "running"


@pytest.mark.slow
def test_a_job_is_cancelled_with_a_token_alone(client: httpx.Client, rack: Rack, service: FarmService) -> None:
    assert client.post("/queue/cancel", data={"job": "job1"}).status_code == 403
    assert client.post("/api/jobs/job1/cancel", json={}).status_code == 401
    token = service.tokens.add("alice")
    assert client.post("/api/jobs/job9/cancel", json={}, headers=bearer(token)).status_code == 400
    assert client.post("/api/jobs/job1/cancel", json={}, headers=bearer(token)).status_code == 200
    sign_in(client, token)
    assert 'form="cancel" name="job" value="job2"' in client.get("/queue").text
    assert client.post("/queue/cancel", data={"job": "job2", "csrf": "no"}).status_code == 403
    form = {"job": "job2", "csrf": csrf(client, "/queue")}
    assert client.post("/queue/cancel", data=form).headers["location"] == "/queue"
    assert "job job2: is told to end" in client.get("/queue").text
    assert rack.asked == [("cancel", "job1", "alice"), ("cancel", "job2", "alice")]


@pytest.mark.slow
def test_metrics_of_the_queue(client: httpx.Client, rack: Rack, service: FarmService) -> None:
    rack.queue[1] = job_report(2, TaskReport("phone-002", HOSTILE, "running"))
    service.queue.look()
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    tasks = {tuple(each.labels.values()): each.value for each in families["farm_queue_tasks"].samples}
    assert (tasks["nightly", "running"], tasks["nightly", "waiting"], tasks["interactive", "running"]) == (1, 1, 1)
    jobs = {tuple(each.labels.values()): each.value for each in families["farm_queue_jobs"].samples}
    assert sum(jobs.values()) == 2 and jobs["interactive", "running"] == 1
    begun = {each.labels["priority"]: each.value for each in families["farm_queue_wait_seconds"].samples[::2]}
    assert begun == {"interactive": 1, "nightly": 0}
    assert families["farm_queue_up"].samples[0].value == 1
    assert families["farm_queue_longest_wait_seconds"].samples[0].value > 0


@pytest.mark.slow
def test_the_dashboard_asks_for_metrics_that_there_are(client: httpx.Client) -> None:
    targets = [target for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    asked = {name for target in targets for name in re.findall(r"\bfarm_[a-z_]+", target["expr"])}
    text = client.get("/metrics").text
    found = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)) | set(re.findall(r"^(\w+)[ {]", text, re.MULTILINE))
    assert not asked - found and {"farm_queue_tasks", "farm_queue_wait_seconds_sum", "farm_hosts"} <= asked


def test_waits_are_added_up_when_work_begins() -> None:
    waits = QueueWaits().after([job_report(1, WAITS)], 10.0)
    assert waits.longest_s(14.0) == 4.0 and not waits.begun
    waits = waits.after([job_report(1, WAITS)], 12.0)
    begun = waits.after([job_report(1, TaskReport(WAITS.unit, WAITS.work, "running"))], 17.0)
    assert (begun.begun, begun.seconds, begun.longest_s(20.0)) == ({"nightly": 1}, {"nightly": 7.0}, 0.0)
    assert waits.after([], 17.0) == QueueWaits(), "was cancelled"


ADDRESS = parse_cluster_address("tcp://127.0.0.1:8786")
HISTORY = HealthHistory(outcomes=(JobOutcome(time=1.0, ok=False, reason="timeout"),))


def seen(number: int, state: UnitState = UnitState.READY) -> SeenUnit:
    return SeenUnit(dataclasses.replace(unit_report(number), state=state, reason=""), HISTORY)


def test_a_silent_host_keeps_its_units_out_of_reach_for_a_day() -> None:
    known = known_after({}, [HostLook("beta", (seen(1),)), HostLook("alpha", (seen(0),))], 100.0)
    assert list(merged(known)) == ["phone-000", "phone-001"]
    silent = known_after(known, [HostLook("alpha", (seen(0),)), HostLook("beta", error="is slow")], 200.0)
    host, unit = merged(silent)["phone-001"]
    assert (host, unit.report.state, unit.report.reason) == ("beta", UnitState.UNREACHABLE, "host beta: is slow")
    gone = known_after(silent, [HostLook("alpha", (seen(0),))], 300.0)
    assert gone["beta"].error == GONE and "phone-001" in merged(gone)
    back = known_after(gone, [HostLook("beta", (seen(1),))], 400.0)
    assert merged(back)["phone-001"][1].report.state == UnitState.READY and back["alpha"].error == GONE
    assert list(known_after(gone, [HostLook("alpha", (seen(0),))], 101.0 + FORGOTTEN_S)) == ["alpha"]


def test_a_host_that_never_answered_is_named() -> None:
    known = known_after({}, [HostLook("beta", error="is slow")], 100.0)
    assert known["beta"].error == "is slow" and merged(known) == {}


@pytest.mark.parametrize("first", ["alpha", "beta"])
def test_a_unit_that_two_hosts_list_is_where_it_is_there(first: str) -> None:
    states = {"alpha": UnitState.NOT_CONNECTED, "beta": UnitState.NOT_CONNECTED, first: UnitState.BUSY}
    known = known_after({}, [HostLook(host, (seen(1, state),)) for host, state in states.items()], 1.0)
    assert merged(known)["phone-001"][0] == first


class MadeUpHosts:
    """Stands for a connection; `fault` is raised when it is asked."""

    def __init__(self, looks: Sequence[HostLook]) -> None:
        self.looks, self.fault, self.is_open = looks, "", True
        self.asked: list[tuple[object, ...]] = []

    def look(self) -> Sequence[HostLook]:
        if self.fault:
            self.is_open = False
            raise OSError(self.fault)
        return self.looks

    def reserve(self, *asked: object) -> str:
        self.asked.append(asked)
        return "done"

    def close(self) -> None:
        self.is_open = False


def test_the_scheduler_goes_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MadeUpHosts] = []

    def connect(*_: object) -> MadeUpHosts:
        if made and made[-1].fault == "still away":
            made[-1].fault = "away"
            raise JobError("no scheduler answers there")
        made.append(MadeUpHosts([HostLook("alpha", (seen(0),))]))
        return made[-1]

    monkeypatch.setattr(hosts, "join", connect)
    source = ClusterSource(ADDRESS)
    look = source.look()
    assert (look.hosts, look.host_of) == ({"alpha": ""}, {"phone-000": "alpha"})
    assert source.health(look.reports[0].unit) == HISTORY
    made[0].fault = "still away"
    for _ in range(2):
        with pytest.raises(JobError, match="no scheduler answers there"):
            source.look()
    assert source.look() == look and len(made) == 2
    assert source.reserve("phone-000", 60.0, "why", "alice", False) == "done"
    assert made[1].asked == [("phone-000", 60.0, "why", "alice", False, "alpha")]


def test_nothing_is_asked_of_a_host_that_is_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = MadeUpHosts([HostLook("alpha", (seen(0),))])
    monkeypatch.setattr(hosts, "join", lambda *_: found)
    source = ClusterSource(ADDRESS)
    source.look()
    found.looks = [HostLook("alpha", error="did not answer within 45 s")]
    source.look()
    with pytest.raises(JobError, match="phone-000: its host alpha did not answer"):
        source.reserve("phone-000", 60.0, "why", "alice", False)
    assert found.asked == []
