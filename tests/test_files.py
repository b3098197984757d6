"""Files are read with a limit, and written completely, with their mode, and never over another."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refusals import refused
from tppkit._files import PRIVATE, is_still_there, make_folder, make_private, new_folder, read_bounded, write_new
from tppkit.errors import ConfigurationError, FormatError

TOO_LONG = "n" * 300


def mode_of(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow beyond 10 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_of_exactly_the_limit_is_read_whole(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    assert read_bounded(tmp_path / "f", max_bytes=5) == b"12345"


def test_a_file_beyond_the_limit_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"123456")
    with refused(FormatError, "file.too-large"):
        read_bounded(tmp_path / "f", max_bytes=5)


@pytest.mark.parametrize("name", ["absent", ".", "file/inside", TOO_LONG])
def test_a_path_that_is_not_a_file_cannot_be_read(tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    with refused(FormatError, "file.unreadable"):
        read_bounded(tmp_path / name, max_bytes=5)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_has_its_mode_whatever_the_umask(tmp_path, mask):
    with umask(mask):
        write_new(tmp_path / "public", b"x")
        write_new(tmp_path / "private", b"x", mode=PRIVATE)
    assert (mode_of(tmp_path / "public"), mode_of(tmp_path / "private")) == (0o644, 0o600)


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_a_new_file_is_never_written_over_another(tmp_path, kind):
    path = tmp_path / "f"
    match kind:
        case "file":
            path.write_bytes(b"old")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / "elsewhere")
    with refused(ConfigurationError, "file.exists"):
        write_new(path, b"new")
    assert not (tmp_path / "elsewhere").exists()
    assert kind != "file" or path.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["absent/f", TOO_LONG])
def test_a_file_that_cannot_be_made_is_refused(tmp_path, name):
    with refused(ConfigurationError, "file.unwritable"):
        write_new(tmp_path / name, b"x")


def test_a_file_that_cannot_be_written_in_full_is_not_left_behind(tmp_path):
    with full_disk(), refused(ConfigurationError, "file.unwritable"):
        write_new(tmp_path / "f", b"x" * 1000)
    assert not any(tmp_path.iterdir())


def test_a_new_folder_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "above" / "folder"
    with new_folder(path) as folder:
        write_new(folder / "f", b"x")
        assert not path.exists()
    assert [p.name for p in path.iterdir()] == ["f"]
    assert mode_of(path) == 0o755
    assert list(path.parent.iterdir()) == [path]


def test_only_the_owner_can_read_a_folder_before_it_is_complete(tmp_path):
    with umask(0), new_folder(tmp_path / "folder") as folder:
        assert mode_of(folder) == 0o700


def test_an_empty_folder_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with new_folder(tmp_path / "folder") as folder:
        write_new(folder / "f", b"x")
    assert (tmp_path / "folder" / "f").read_bytes() == b"x"


def test_a_folder_that_fails_half_way_leaves_nothing(tmp_path):
    def fill_and_fail():
        with new_folder(tmp_path / "folder") as folder:
            write_new(folder / "f", b"x")
            write_new(folder / "f", b"x")

    with pytest.raises(ConfigurationError):
        fill_and_fail()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["file", "full folder", "link to an empty folder"])
def test_a_new_folder_never_replaces_anything(tmp_path, kind):
    path = tmp_path / "folder"
    match kind:
        case "file":
            path.write_bytes(b"old")
        case "full folder":
            path.mkdir()
            (path / "old").write_bytes(b"old")
        case _:
            (tmp_path / "other").mkdir()
            path.symlink_to(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    with refused(ConfigurationError, "file.exists"), new_folder(path):
        pytest.fail("the body must not run")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_another_process_filled_at_the_same_time_is_unchanged(tmp_path):
    path = tmp_path / "folder"

    def race():
        with new_folder(path):
            path.mkdir()
            (path / "theirs").write_bytes(b"")

    with refused(ConfigurationError, "file.exists"):
        race()
    assert sorted(tmp_path.rglob("*")) == [path, path / "theirs"]


@pytest.mark.parametrize("name", ["file/inside", TOO_LONG])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    with refused(ConfigurationError, "file.unwritable"), new_folder(tmp_path / name):
        pytest.fail("the body must not run")


@pytest.mark.parametrize("mask", [0, 0o077])
def test_only_the_owner_can_read_a_database_file_and_an_existing_one_is_not_opened(tmp_path, mask):
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    with umask(mask):
        make_private(link)
    assert mode_of(file) == 0o600
    with file.open("r+b") as ours:
        fcntl.lockf(ours, fcntl.LOCK_EX)
        make_private(file)
        attempt = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        done = subprocess.run([sys.executable, "-c", attempt, str(file)], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in done.stderr


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_only_the_owner_can_change_a_folder_whatever_the_umask(tmp_path, mask):
    with umask(mask):
        make_folder(tmp_path / "above" / "folder")
    assert mode_of(tmp_path / "above") == mode_of(tmp_path / "above" / "folder") == 0o755


@pytest.mark.parametrize("as_link", [False, True])
def test_a_folder_that_another_process_makes_at_the_same_time_keeps_its_mode(tmp_path, monkeypatch, as_link):
    folder, private, mkdir = tmp_path / "folder", tmp_path / "private", Path.mkdir
    private.mkdir(mode=0o700)

    def too_late(path, *args, **kwargs):
        if path == folder:
            folder.symlink_to(private) if as_link else mkdir(folder, mode=0o700)
        mkdir(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", too_late)
    make_folder(folder)
    assert mode_of(folder) == mode_of(private) == 0o700


def test_a_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with refused(ConfigurationError, "file.unwritable"):
        make_folder(tmp_path / "file" / "folder")


def test_a_private_file_is_made_once_and_recognised(tmp_path):
    path = tmp_path / "private"
    with umask(0):
        identity = make_private(path)
    path.write_bytes(b"kept")
    assert (make_private(path), path.read_bytes(), mode_of(path)) == (identity, b"kept", PRIVATE)


def test_a_file_that_replaces_another_is_not_the_same(tmp_path):
    path = tmp_path / "private"
    identity = make_private(path)
    assert is_still_there(path, identity)
    path.rename(tmp_path / "elsewhere")
    assert not is_still_there(path, identity)
    make_private(path)
    assert not is_still_there(path, identity)
    assert is_still_there(tmp_path / "elsewhere", identity)
