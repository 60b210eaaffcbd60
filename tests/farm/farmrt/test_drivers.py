"""OpenCL drivers of this host are found in order of preference, without loading any."""

import os
from pathlib import Path

import pytest

from farm.farmrt import drivers
from farm.farmrt.drivers import DanglingEntry, Driver


@pytest.fixture
def vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vendors folder that lists PoCL by name, a driver by path, and one that is gone; no driver from PyPI."""
    libraries, folder = tmp_path / "lib", tmp_path / "vendors"
    libraries.mkdir()
    folder.mkdir()
    for name in ("libpocl.so.2", "libnvidia-opencl.so.1", "libother.so"):
        (libraries / name).touch()
    (folder / "pocl.icd").write_text("libpocl.so.2\n")
    (folder / "zz.icd").write_text(f"{libraries}/libother.so\n\n")
    (folder / "gone.icd").write_text("libgone.so")
    (folder / "readme.txt").write_text("libnvidia-opencl.so.1")
    monkeypatch.setattr(drivers, "_from_pypi", lambda: iter(()))
    return folder


def environment(vendors: Path, **values: str) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(vendors.parent / "lib"), **values}


def test_system_drivers_by_name_and_by_path(vendors: Path) -> None:
    libraries = vendors.parent / "lib"
    assert drivers.find_drivers(environment(vendors), vendors) == [
        Driver(libraries / "libpocl.so.2", "system", "PoCL"),
        Driver(libraries / "libother.so", "system", "libother.so"),
    ]


def test_an_entry_that_leads_nowhere_is_told(vendors: Path) -> None:
    assert drivers.find_dangling(environment(vendors), vendors) == [DanglingEntry(vendors / "gone.icd", "libgone.so")]


def test_farm_opencl_comes_before_all_and_is_missed_where_it_leads_nowhere(vendors: Path) -> None:
    named = environment(vendors, FARM_OPENCL="libother.so", OCL_ICD_FILENAMES="libpocl.so.2")
    assert [driver.name for driver in drivers.find_drivers(named, vendors)] == ["libother.so", "PoCL"]
    gone = environment(vendors, FARM_OPENCL="/nowhere/lib.so", OCL_ICD_FILENAMES="libpocl.so.2")
    assert drivers.find_dangling(gone, vendors)[0] == DanglingEntry("FARM_OPENCL", "/nowhere/lib.so")


def test_the_users_drivers_come_first_and_once(vendors: Path) -> None:
    libraries = vendors.parent / "lib"
    names = os.pathsep.join(["libnvidia-opencl.so.1", str(libraries / "libother.so"), "libgone.so"])
    found = drivers.find_drivers(environment(vendors, OCL_ICD_FILENAMES=names), vendors)
    assert found == [
        Driver(libraries / "libnvidia-opencl.so.1", "environment", "NVIDIA"),
        Driver(libraries / "libother.so", "environment", "libother.so"),
        Driver(libraries / "libpocl.so.2", "system", "PoCL"),
    ]


@pytest.mark.parametrize("value", ["vendors", "vendors/pocl.icd", "lib/libpocl.so.2"])
def test_named_vendors_replace_those_of_the_system(vendors: Path, tmp_path: Path, value: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "nvidia.icd").write_text("libnvidia-opencl.so.1")
    named = str(tmp_path / value)
    found = drivers.find_drivers(environment(vendors, OCL_ICD_VENDORS=named), other)
    assert found[0] == Driver(tmp_path / "lib" / "libpocl.so.2", "environment", "PoCL")
    assert "system" not in {driver.origin for driver in found}


def test_a_machine_without_drivers(vendors: Path, tmp_path: Path) -> None:
    assert drivers.find_drivers({}, tmp_path / "none") == []
    assert drivers.find_dangling({}, tmp_path / "none") == []


def test_pypi_brings_one_and_the_system_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "INTEL_DISTRIBUTION", "no-such-distribution")
    (pypi,) = drivers.find_drivers({}, tmp_path / "none")
    assert (pypi.origin, pypi.name, pypi.path.is_file()) == ("pypi", "PoCL", True)
    (tmp_path / "libpocl.so.2").touch()
    (tmp_path / "pocl.icd").write_text(str(tmp_path / "libpocl.so.2"))
    assert [driver.origin for driver in drivers.find_drivers({}, tmp_path)] == ["system", "pypi"]


def test_intels_from_pypi_is_preferred_to_pocl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its wheel lists the library outside of any package; it is looked for wherever pip put it."""
    site, library = tmp_path / "lib" / "python" / "site-packages", tmp_path / "lib" / "libintelocl.so"
    metadata = site / "intel_opencl_rt-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: intel-opencl-rt\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("../../libintelocl.so,,\n../../cl.cfg,,\n")
    monkeypatch.syspath_prepend(str(site))
    assert [driver.name for driver in drivers.find_drivers({}, tmp_path)] == ["PoCL"], "the file is gone"
    library.touch()
    intel, pocl = drivers.find_drivers({}, tmp_path)
    assert intel == Driver(library, "intel", "Intel (CPU)")
    assert pocl.name == "PoCL"
