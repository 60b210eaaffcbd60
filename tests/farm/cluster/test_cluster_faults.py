"""What fails in a cluster, with real processes: jobs are done all the same, and nobody has to clean up."""

import contextlib
import datetime
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from farm import atomic_file
from farm.cluster import certificates, client, connection, hosts
from farm.cluster.address import parse_cluster_address
from farm.cluster.certificates import create_authority, create_host
from farm.cluster.client import ClusterSession
from farm.cluster.hosts import Hosts
from farm.cluster.job_files import JobFiles
from farm.cluster.queue import JobName
from farm.cluster.remote_units import ClusterExecutor, RemoteCommand
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FLEET
from farm.jobs.fleet.progress import SILENT, UnitProgress
from farm.transport.interruption import Interruption
from tests.farm.cluster import waiting_units
from tests.farm.cluster.proxy import Proxy
from tests.farm.cluster.services import (
    DEVICES,
    PROGRAM,
    STARTED_S,
    Service,
    TestCluster,
    end,
    rows,
    running_jobs,
    start_command,
    wait_until,
)
from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits, farmrt_processes
from tests.farm.model.tiny_model import write_deployment

pytestmark = pytest.mark.slow

QUICK = "400"  # rounds of some seconds
FULL = """
import errno, os
from pathlib import Path
from farm.cluster.host_files import HostFiles

def failing(method):
    def call(*given, **named):
        if Path("full").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return method(*given, **named)
    return call

HostFiles.add_part, HostFiles.probe_room = failing(HostFiles.add_part), failing(HostFiles.probe_room)

from farm.cluster import host_process
from tests.farm import forks

host_process.subprocess = forks.SUBPROCESS
host_process.PROGRAM = f'''
import errno, os
sync = os.fsync

def full(descriptor):
    if os.path.exists({str(Path("full-for-jobs").absolute())!r}):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    sync(descriptor)

os.fsync = full
''' + host_process.PROGRAM
"""
FORGIVING = "from farm.cluster import certificates; certificates.check_host_files = lambda *_: None; "
IMPATIENT = "from farm.cluster import connection; connection.SETTINGS['distributed.scheduler.worker-ttl'] = '5s'; "


@pytest.fixture
def cluster(tmp_path: Path, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestCluster]:
    """A scheduler of this machine alone; commands mean it, in a folder with a model."""
    write_deployment(own_folder, runtime="cpu", shape="1000,3,8,8")
    with TestCluster(tmp_path, certificates=False) as found:
        monkeypatch.setenv("FARM_CLUSTER", found.url)
        yield found


def start_run(*more: str, rounds: str = QUICK) -> subprocess.Popen[str]:
    units = () if "--device" in more else ("--soc", "host")
    return start_command("run", "tiny.yml", *units, "--round", rounds, "--json", *more)


def wait_for_ok(process: subprocess.Popen[str]) -> str:
    """The unit of a command's only row, which is good."""
    out, err = process.communicate(timeout=STARTED_S)
    (row,) = rows(out)
    assert (process.returncode, row.status) == (0, "ok"), (row.reason, err)
    return row.unit


def wait_until_runs(farm: CallFarm) -> str:
    """The unit of the job that runs."""
    (job,) = wait_until(lambda: running_jobs(farm), "the job runs")
    return str(job["tasks"][0]["unit"])


def port_of(cluster: TestCluster) -> int:
    return int(cluster.url.rpartition(":")[2])


def test_a_scheduler_that_is_killed_and_started_again(cluster: TestCluster, farm: CallFarm) -> None:
    """A command that runs goes on, though its unit's job may not be tried again; others are served after."""
    cluster.start_worker("alpha").wait_for("alpha: is offered")
    process = start_run("--retries", "0")
    try:
        wait_until_runs(farm)
        cluster.services["scheduler"].end(signal.SIGKILL)
        cluster.start_scheduler(port_of(cluster))
        assert wait_for_ok(process) == "alpha"
        assert farm("run", "tiny.yml", "--device", "alpha", "--round", "1")[0] == 0
    finally:
        end(process)


@pytest.mark.parametrize("kind", ["stall", "cut"])
def test_a_network_that_fails_for_a_while(cluster: TestCluster, farm: CallFarm, kind: str) -> None:
    """A short silence costs nothing; after a broken connection a job is tried again."""
    with Proxy(port_of(cluster)) as proxy:
        scheduler, cluster.url = cluster.url, f"tcp://127.0.0.1:{proxy.port}"
        worker = cluster.start_worker("alpha")
        cluster.url = scheduler
        worker.wait_for("alpha: is offered")
        process = start_run("--retries", str(int(kind == "cut")))
        try:
            wait_until_runs(farm)
            getattr(proxy, kind)()
            time.sleep(3)
            proxy.mend()
            assert wait_for_ok(process) == "alpha"
        finally:
            end(process)


def test_a_host_that_hangs_loses_its_job_to_another(
    tmp_path: Path, own_folder: Path, farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is too slow to say that it lives is as good as dead; when it goes on it offers its units again."""
    write_deployment(own_folder, runtime="cpu", shape="1000,3,8,8")
    with TestCluster(tmp_path, certificates=False, scheduler=IMPATIENT + PROGRAM) as cluster:
        monkeypatch.setenv("FARM_CLUSTER", cluster.url)
        for name in ("alpha", "beta"):
            cluster.start_worker(name).wait_for(f"{name}: is offered")
        process = start_run("--spread")
        hanging = cluster.services[wait_until_runs(farm)]
        try:
            hanging.process.send_signal(signal.SIGSTOP)
            assert cluster.services[wait_for_ok(process)] is not hanging
            hanging.process.send_signal(signal.SIGCONT)
            hanging.wait_for("is offered")
        finally:
            hanging.process.send_signal(signal.SIGCONT)
            end(process)


def test_a_full_disk(cluster: TestCluster, farm: CallFarm) -> None:
    """The line names the host; another host does the job, and without one it waits for room.

    First it has no room for what is sent, then for what a job writes in its own process.
    """
    program, full = FULL + PROGRAM, cluster.folder / "alpha/full"
    worker = cluster.start_worker("alpha", program)
    worker.wait_for("alpha: is offered")
    full.touch()
    status, out, _ = farm("run", "tiny.yml", "--soc", "host", "--retries", "0", "--json")
    (row,) = rows(out)
    assert (status, row.status) == (1, "device_lost")
    assert row.reason == "alpha: its disk takes no files: No space left on device"
    waiting = other = start_run("--device", "alpha", rounds="1")
    try:
        cluster.start_worker("beta").wait_for("beta: is offered")
        other = start_run("--spread", rounds="1")
        assert wait_for_ok(other) == "beta"
        full.unlink()
        assert wait_for_ok(waiting) == "alpha"
        full.with_name("full-for-jobs").touch()
        status, out, err = farm("run", "tiny.yml", "--device", "alpha", "--retries", "0", "--json")
        (row,) = rows(out)
        assert (status, row.status) == (1, "device_lost") and err.count("\n") == 1
        place = cluster.folder / "alpha/build"
        said = r"alpha: its disk takes no files: build/\S+: cannot be written: No space left on device \(in (\S+)\)"
        found = re.fullmatch(said, row.reason)
        assert found and Path(found[1]).parent == place / "cluster/jobs", row.reason
        assert not [left for folder in place.rglob("*") for left in atomic_file.abandoned(folder)]
        other = start_run("--spread", rounds="1")
        assert wait_for_ok(other) == "beta"
    finally:
        for process in (waiting, other):
            end(process)


def test_a_unit_that_moves_to_another_host(emulated: EmulatedUnits, cluster: TestCluster, farm: CallFarm) -> None:
    """One host offers it at a time; a job on it goes on there where its cable leads to."""
    write_deployment(emulated.folder, runtime="cpu", shape="1000,3,8,8")
    phone = emulated.phone("one")
    entry = DEVICES.format(name="one", phone=phone.port, server=emulated.server)
    alpha = cluster.start_worker("alpha", devices=entry)
    alpha.wait_for("one: is offered")
    beta = cluster.start_worker("beta", devices=entry)
    beta.wait_for("one: another host offers it")
    process = start_command("run", "tiny.yml", "--soc", "sdm845", "--round", QUICK, "--json")
    try:
        assert wait_until_runs(farm) == "one"
        wait_until(lambda: farmrt_processes(phone), "farmrt runs on the phone")
        (cluster.folder / "alpha/devices.yml").unlink()
        alpha.wait_for("one: has gone")
        beta.wait_for("one: is offered")
        assert wait_for_ok(process) == "one"
    finally:
        end(process)


def test_the_jobs_of_a_client_that_dies_end(cluster: TestCluster, farm: CallFarm) -> None:
    cluster.start_worker("alpha").wait_for("alpha: is offered")
    process = start_run(rounds="100000")
    try:
        wait_until_runs(farm)
        process.kill()
        assert farm("run", "tiny.yml", "--device", "alpha", "--wait", "60", "--round", "1")[0] == 0, "the unit is free"
        assert not running_jobs(farm)
    finally:
        end(process)


def test_an_expired_certificate_is_named_on_either_side(tmp_path: Path, farm: CallFarm) -> None:
    """By who has it; and by who meets one that does not know its own date."""
    long_ago = certificates.utc_now() - datetime.timedelta(days=certificates.HOST_DAYS + 30)
    authority = tmp_path / "ca"
    create_authority(authority, "alpha")
    expired = create_host(authority, "expired", lambda: long_ago)
    status, _, err = farm("devices", "--cluster", "tls://127.0.0.1:1", "--certificates", str(expired))
    assert status == 2 and "host.pem: expired on" in err and err.count("\n") == 1
    arguments = ["scheduler", "--port", "0", "--certificates", str(expired)]
    scheduler = Service(arguments, tmp_path / "scheduler", FORGIVING + PROGRAM)
    try:
        url = scheduler.wait_for("scheduler at").split()[-1]
        status, _, err = farm("devices", "--cluster", url, "--certificates", str(authority))
        assert status == 1 and "certificate has expired" in err and err.count("\n") == 1
    finally:
        scheduler.end()


def session(cluster: TestCluster, user: str) -> ClusterSession:
    """A command's place in the cluster."""
    job = JobName(f"{user}{time.monotonic_ns()}", user, "run", "interactive", time.time())
    address = parse_cluster_address(cluster.url)
    return ClusterSession(lambda: connection.connect_client(address, None, job.text), address, job)


def wait_on(place: ClusterSession, unit: str, until: str) -> str:
    """Has a unit wait so many seconds, or until there is a file; its name on its host."""
    options = Unit(unit, "adb", "sdm845", "", ("arm64-v8a",)), FLEET, UnitProgress(unit, SILENT), Interruption()
    with ClusterExecutor(place).open(*options) as opened:
        document = opened.run("tiny", lambda: RemoteCommand(("wait", until), JobFiles({}, {})))
    return str(document["unit"])


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[TestCluster]:
    """Two hosts with two units each that wait."""
    with TestCluster(tmp_path, certificates=False) as found:
        for name, units in (("alpha", "a b"), ("beta", "c d")):
            found.start_worker(name, waiting_units.PROGRAM, UNITS=units).wait_for(f"{units[-1]}: is offered")
        yield found


def test_fifty_clients_at_once(waiting: TestCluster) -> None:
    """Each gets the answer of its unit, and nothing is left of any."""

    def work(number: int) -> tuple[str, str]:
        place, unit = session(waiting, f"user{number % 7}"), "abcd"[number % 4]
        try:
            return unit, wait_on(place, unit, "0.05")
        finally:
            place.close()

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(work, range(50)))
    assert len(answers) == 50 and all(unit == answered for unit, answered in answers)
    with hosts.connected(parse_cluster_address(waiting.url), None) as found:
        wait_until(lambda: not found.jobs(), "all have left")


def test_a_client_is_told_which_units_have_gone_and_come(waiting: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not ask: here it would do so only after longer than anybody waits."""
    monkeypatch.setattr(client, "WATCH_S", 2 * STARTED_S)
    place = session(waiting, "ann")
    try:
        wait_until(lambda: place.host_of("a") == place.host_of("b") == "alpha", "alpha offers both")
        waiting.services["alpha"].end(signal.SIGKILL)
        wait_until(lambda: place.host_of("a") is place.host_of("b") is None, "alpha's units have gone")
        waiting.start_worker("gamma", waiting_units.PROGRAM, UNITS="b e")
        wait_until(lambda: place.host_of("b") == place.host_of("e") == "gamma", "gamma's units have come")
        assert place.host_of("c") == "beta"
    finally:
        place.close()


def test_people_take_turns_on_a_unit(waiting: TestCluster, tmp_path: Path) -> None:
    """While Carol has a unit, Ann's five commands come, and then Bob's one: his is not the last."""
    order: list[str] = []
    free = tmp_path / "free"

    def work(place: ClusterSession) -> None:
        wait_on(place, "a", str(free) if place.job.user == "carol" else "0.5")  # longer than an answer takes
        order.append(place.job.user)

    with contextlib.ExitStack() as left:
        found = left.enter_context(hosts.connected(parse_cluster_address(waiting.url), None))
        places = [session(waiting, user) for user in ("carol", *["ann"] * 5, "bob")]
        for place in places:
            left.callback(place.close)
        threads = [threading.Thread(target=work, args=(place,)) for place in places]
        for count, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda count=count: _tasks(found) == count, "it waits")  # type: ignore[misc]
        free.touch()
        for thread in threads:
            thread.join(STARTED_S)
    assert len(order) == 7 and order.index("bob") in (1, 2), order


def _tasks(found: Hosts) -> int:
    return sum(len(job.tasks) for job in found.jobs())
