"""What a server reads of a store that others change."""

from pathlib import Path

from farm.serve.kept_results import KeptResults
from farm.store import Store


def test_a_store_that_took_the_name_of_a_deleted_one_is_shown(tmp_path: Path) -> None:
    path, shown = tmp_path / "farm.db", []
    results = KeptResults(str(path), tmp_path)
    for name in ("old", "new"):
        path.unlink(missing_ok=True)
        with Store.open(str(path)) as store:
            store.begin(name, "")
        shown.append([run.name for run in results.runs()])
    results.close()
    assert shown == [["old"], ["new"]]
