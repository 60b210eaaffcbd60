"""The reports and artifacts of this host and of all others, each with its host and where the service has it."""

import dataclasses
from urllib.parse import quote

from farm.cluster.result_tasks import KeptArtifact, ResultKind, kept_artifacts
from farm.report.kept_nights import WrittenReport
from farm.serve.service import FarmService


@dataclasses.dataclass(frozen=True)
class ShownReport:
    """A report; `host` is empty for this one."""

    report: WrittenReport
    host: str
    address: str


@dataclasses.dataclass(frozen=True)
class ShownArtifact:
    """An artifact; `host` is empty for this one."""

    artifact: KeptArtifact
    host: str
    address: str


def all_reports(service: FarmService) -> list[ShownReport]:
    """The newest first."""
    found = [ShownReport(each, "", f"{_address('', 'reports', each.name)}/") for each in service.results.reports()]
    for host, told in service.others.snapshot.hosts.items():
        found += [ShownReport(each, host, f"{_address(host, 'reports', each.name)}/") for each in told.reports]
    return sorted(found, key=lambda shown: -shown.report.written)


def all_artifacts(service: FarmService) -> list[ShownArtifact]:
    """Those of this host first."""
    found = [ShownArtifact(each, "", _address("", "artifacts", each.path)) for each in kept_artifacts()]
    for host, told in service.others.snapshot.hosts.items():
        found += [ShownArtifact(each, host, _address(host, "artifacts", each.path)) for each in told.artifacts]
    return found


def _address(host: str, kind: ResultKind, path: str) -> str:
    place = f"/hosts/{quote(host, safe='')}" if host else ""
    return f"{place}/{kind}/{quote(path)}"
