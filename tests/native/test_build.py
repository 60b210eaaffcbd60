"""Building farmrt: the generated header, the cache, and what is said when it fails."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.cli.build import command
from runtime.errors import BuildError, ConfigError
from runtime.native import build
from runtime.native.build import build_farmrt
from runtime.plan import header


def test_the_header_is_what_the_records_say() -> None:
    written = Path(build.__file__).parent / "src" / "format.h"
    assert written.read_text() == header.generate(), (
        "renew: python -m runtime.plan.header > runtime/native/src/format.h"
    )


def test_unchanged_sources_are_not_compiled_again(farmrt_program: Path) -> None:
    before = farmrt_program.stat()
    assert build_farmrt() == farmrt_program
    assert farmrt_program.stat().st_mtime_ns == before.st_mtime_ns


def test_unknown_abi() -> None:
    with pytest.raises(ConfigError, match="ABI 'vax' is unknown; farmrt is built for host, aarch64-linux, armhf-linux"):
        build_farmrt("vax")


def test_a_compiler_that_fails(tmp_path: Path) -> None:
    script = "import sys; print('base.c:1: no such thing'); sys.exit(3)"
    with pytest.raises(BuildError, match=r"failed with exit status 3:\nbase.c:1: no such thing"):
        build_farmrt(output_dir=tmp_path, compiler=[sys.executable, "-c", script])
    assert not list((tmp_path / "host").glob("farmrt*"))


def test_a_compiler_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="farmrt: /nonexistent/cc cannot be started: No such file"):
        build_farmrt(output_dir=tmp_path, compiler=["/nonexistent/cc"])


def test_command(farmrt_program: Path) -> None:
    done = CliRunner().invoke(command, [], standalone_mode=False)
    assert done.output == f"{farmrt_program} ({farmrt_program.stat().st_size} bytes)\n"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="ziglang is the default here")
def test_ziglang_builds_it_too(tmp_path: Path) -> None:
    program = build_farmrt(output_dir=tmp_path, compiler=[sys.executable, "-m", "ziglang", "cc"])
    assert program.stat().st_size > 50_000
