"""How hosts, clients and the scheduler reach each other: Dask's settings, certificates, and the versions of farm."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, Security

import farm
from farm.cluster import certificates, queue
from farm.cluster.address import ClusterAddress
from runtime.errors import ConfigError, JobError

CONNECT_S = 20.0
SILENCE = "120s"  # a network that is cut for a minute loses no unit
KEPT_EVENTS = 200
LOGGERS = ("distributed", "distributed.client")  # those that Dask gives a level
NO_PAGE: dict[str, Any] = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
SETTINGS = {
    "distributed.admin.low-level-log-length": KEPT_EVENTS,  # of each job's progress
    "distributed.admin.system-monitor.interval": "10s",  # each unit is a worker, which would look twice a second,
    "distributed.admin.system-monitor.log-length": KEPT_EVENTS,
    "distributed.admin.tick.cycle": "10s",  # and wake fifty times
    "distributed.admin.tick.interval": "10s",
    "distributed.comm.timeouts.connect": f"{CONNECT_S:g}s",
    "distributed.comm.timeouts.tcp": SILENCE,
    "distributed.scheduler.http.routes": [],  # no page: what is shown is shown by farm
    "distributed.scheduler.work-stealing": False,  # a job belongs to its unit
    "distributed.scheduler.worker-ttl": SILENCE,
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
}


def use_settings() -> None:
    """Sets Dask up as farm uses it, for this process."""
    dask.config.set(SETTINGS)
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def security_for(address: ClusterAddress, folder: Path | None) -> Security | None:
    """The certificates of this host; None on plain TCP. Raises ConfigError where they are missing or have expired."""
    if not address.is_encrypted:
        return None
    place = folder or certificates.default_folder()
    certificates.check_host_files(place)
    certificate, key = (str(place / name) for name in (certificates.CERTIFICATE, certificates.KEY))
    roles = ("client", "scheduler", "worker")
    pairs = {f"tls_{role}_{kind}": path for role in roles for kind, path in (("cert", certificate), ("key", key))}
    return Security(tls_ca_file=str(place / certificates.CA), require_encryption=True, **pairs)


def connect_client(address: ClusterAddress, folder: Path | None, name: str) -> Client:
    """A client of the scheduler; raises JobError where none answers, ConfigError where it is of another farm."""
    use_settings()
    security = security_for(address, folder)
    try:
        client = Client(str(address), security=security, name=name, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise JobError(unanswered(address, error)) from None
    try:
        check_farm_version(address, client.run_on_scheduler(scheduler_version))
    except BaseException:
        client.close()
        raise
    return client


def ask_host(client: Client, asker: str, host: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Has a host do something beside its jobs, before all that waits; `asker` is a job, or who else asks."""
    key, where = queue.task_key(asker, "", function.__name__), {f"host:{host}": 1}
    return client.submit(function, *arguments, key=key, resources=where, priority=queue.BEFORE_JOBS, pure=False)


def unanswered(address: ClusterAddress, error: BaseException) -> str:
    """For people: why a scheduler cannot be reached, as far as that is known."""
    text = " ".join(str(error.__cause__ or error).split()) or type(error).__name__
    what = "with a certificate of the same authority " if address.is_encrypted else ""
    return f"{address}: no scheduler answers there {what}(`farm scheduler` starts one): {text[:200]}"


def scheduler_version(dask_scheduler: Any) -> str:
    """The version of farm that the scheduler has; is run there."""
    return farm.__version__


def check_farm_version(address: ClusterAddress, found: str, who: str = "this farm") -> None:
    """Raises ConfigError unless the scheduler's version of farm is ours."""
    if found != farm.__version__:
        raise ConfigError(
            f"{address}: the scheduler is of farm {found}, {who} of {farm.__version__}; install the same on all hosts"
        )
