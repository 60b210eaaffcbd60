from __future__ import annotations

from pathlib import Path

import pytest

from farm.serve.tokens import Tokens
from runtime.errors import ConfigError, FormatError


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "config" / "tokens.json")


def test_a_token_is_known_by_its_hash_alone(tokens: Tokens, tmp_path: Path) -> None:
    alice, bob = tokens.add("alice"), tokens.add("bob@lab")
    assert (tokens.person(alice), tokens.person(bob)) == ("alice", "bob@lab")
    file = tmp_path / "config" / "tokens.json"
    assert alice not in file.read_text() and alice.removeprefix("farm_") not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert len({alice, bob}) == 2 and len(alice) > 40


@pytest.mark.parametrize("token", ["", "farm_", "alice", "\udcff"])
def test_anything_else_is_nobody_s(tokens: Tokens, token: str) -> None:
    tokens.add("alice")
    assert tokens.person(token) == ""


def test_a_revoked_token_ends_at_once(tokens: Tokens) -> None:
    token = tokens.add("alice")
    tokens.revoke("alice")
    assert tokens.person(token) == ""
    assert tokens.add("alice") != token


def test_mistakes(tokens: Tokens, tmp_path: Path) -> None:
    tokens.add("alice")
    with pytest.raises(ConfigError, match="`farm serve token revoke alice` ends it"):
        tokens.add("alice")
    with pytest.raises(ConfigError, match="bob has no token"):
        tokens.revoke("bob")
    for name in ("", "-x", "a b", "x" * 41, "a\nb"):
        with pytest.raises(ConfigError, match="cannot name a person"):
            tokens.add(name)
    (tmp_path / "config" / "tokens.json").write_text("{")
    with pytest.raises(FormatError, match="damaged"):
        tokens.all()
