"""What tests of a cluster mean unless they have their own: two real hosts, and a model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.farm.cluster.services import TestCluster
from tests.farm.model.tiny_model import write_deployment


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """Two hosts with certificates; each offers itself."""
    with TestCluster(tmp_path_factory.mktemp("cluster"), certificates=True) as found:
        found.start_hosts("alpha", "beta")
        yield found


@pytest.fixture
def folder(own_folder: Path, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, whose commands mean the cluster."""
    # 100,000 rounds last minutes; on one core, so that commands run beside them
    write_deployment(own_folder, runtime="cpu", shape="1000,3,8,8", num_threads="1")
    monkeypatch.setenv("FARM_CLUSTER", cluster.url)
    monkeypatch.setenv("FARM_CERTIFICATES", str(cluster.folder / "ca"))
    return own_folder
