"""Whose a directory or a file with a secret is, and what is done to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.owner_only import kept_secret, make_owner_only, write_owner_only
from schemas.errors import ConfigError

pytestmark = pytest.mark.security
SECRET = "a-secret-of-our-own-making_1"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_a_directory_that_others_need_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work, group = tmp_path / "home", tmp_path / "work", tmp_path / "group"
    for directory in (home, work / "project", group):
        directory.mkdir(parents=True)
    for directory, as_it_is in ((home, 0o755), (work, 0o755), (work / "project", 0o775), (group, 0o2775)):
        directory.chmod(as_it_is)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work / "project")
    for directory in (home, work, work / "project", group, Path("/"), Path("/usr"), Path()):
        before = mode(directory)
        make_owner_only(directory)
        assert mode(directory) == before
    data = work / "project" / ".data"
    data.mkdir(mode=0o755)
    make_owner_only(data)
    assert mode(data) == 0o700


def test_a_directory_that_cannot_be_closed_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_path: Path, _mode: int) -> None:
        raise PermissionError("Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refused)
    with pytest.raises(ConfigError, match="stores permissions"):
        make_owner_only(tmp_path)


def test_a_secret_of_our_own_is_read_and_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / "password"
    assert kept_secret(file) is None
    write_owner_only(file, SECRET + "\n")
    file.chmod(0o644)
    assert (kept_secret(file), mode(file)) == (SECRET, 0o600)


@pytest.mark.parametrize("prepared", ["link", "another user's", "pipe", "key", "short", "not ascii"])
def test_what_somebody_prepared_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: str) -> None:
    file, other = tmp_path / "password", tmp_path / "id_ed25519"
    other.write_text(SECRET)
    match prepared:
        case "link":
            file.symlink_to(other)
        case "pipe":
            os.mkfifo(file)
        case "another user's":
            file.write_text(SECRET)
            own = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        case _:
            content = {"key": "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n", "short": "abc", "not ascii": "ä" * 30}
            file.write_text(content[prepared], "utf-8")
    with pytest.raises(ConfigError) as refused:
        kept_secret(file)
    assert "OPENSSH" not in str(refused.value) and SECRET not in str(refused.value)
