"""Bounded reading of files, and writing that leaves no half-written or world-readable file."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tppkit.errors import ConfigurationError, FormatError

PRIVATE = 0o600
PUBLIC = 0o644
FOLDER = 0o755
_DAY_S = 86_400
FilePath = str | os.PathLike[str]
FileIdentity = tuple[int, int]  # numbers of the file system, and of the file in it; a name is no part of it
FileTimes = tuple[tuple[str | int, ...], ...]  # of each file its path, identity, size, and times in nanoseconds


def as_path(path: FilePath) -> Path:
    """Return a caller's path, given as text or path.

    Raises:
        ConfigurationError: `file.path`, the text is empty, PEM or contains a NUL. The message hides it, because it may be a private key.
    """
    text = os.fspath(path)
    if not text:
        raise ConfigurationError("file.path", "the name of a file is expected, but the text is empty")
    if "-----BEGIN " in text or "\0" in text:
        raise ConfigurationError("file.path", "the name of a file is expected, but the text is PEM or contains a NUL")
    return Path(text)


def regular_only(path: str, flags: int) -> int:
    """Open a regular file without waiting; an opener for `open()`.

    FIFOs and devices block or never end, and a link in another user's folder may lead to one.

    Raises:
        OSError: the path is absent, or a link, FIFO, device, socket or folder.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise _not_regular(path) from e
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def require_regular(paths: Iterable[FilePath]) -> None:
    """Reject what is neither a regular file, perhaps behind a link, nor a folder, nor absent: reading a FIFO may never end.

    Raises:
        FormatError: `file.unreadable`.
    """
    for path in map(as_path, paths):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise FormatError("file.unreadable", f"{path} is not a regular file")


def _not_regular(path: str) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file (links are not followed)", path)


def read_bounded(path: FilePath, *, max_bytes: int, opener: Callable[[str, int], int] | None = None) -> bytes:
    """Read a whole file.

    Args:
        path: the file.
        max_bytes: size limit.
        opener: passed to `open()`; use `regular_only` in a folder of another user.

    Raises:
        ConfigurationError: `file.path`.
        FormatError: `file.unreadable` (absent, a folder, no permission), `file.too-large`.
    """
    path = as_path(path)
    try:
        with open(path, "rb", opener=opener) as file:
            data = file.read(max_bytes + 1)
    except OSError as e:
        raise FormatError("file.unreadable", f"{path} cannot be read: {e.strerror}") from e
    if len(data) > max_bytes:
        raise FormatError("file.too-large", f"{path} has more than {max_bytes} bytes")
    return data


def write_new(path: Path, data: bytes, *, mode: int = PUBLIC) -> None:
    """Write a new file, with `mode` from the first moment.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as e:
        raise ConfigurationError(
            "file.exists", f"{path} exists and is not overwritten: remove it, or give another name"
        ) from e
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path} cannot be written: {e.strerror}") from e
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
    except BaseException as e:
        path.unlink(missing_ok=True)
        if isinstance(e, OSError):
            raise ConfigurationError("file.unwritable", f"{path} cannot be written: {e.strerror}") from e
        raise


def replace_file(path: Path, data: bytes, *, mode: int = PUBLIC) -> None:
    """Write a file, or replace the existing one, completely or not at all.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int = PUBLIC) -> Iterator[BinaryIO]:
    """Open a temporary file that becomes `path` when the body ends, and is removed if the body fails.

    Raises:
        ConfigurationError: `file.unwritable`, also for an OSError of the body.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                yield file
                flush(file)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path} cannot be written: {e.strerror}") from e


def flush(file: BinaryIO) -> None:
    """Wait until the written content is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk.

    Raises:
        OSError: the folder cannot be opened or written.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that killed processes left beside a file. No process may be replacing it now.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    try:
        for leftover in path.parent.glob(f".{path.name}-*"):
            leftover.unlink(missing_ok=True)
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path.parent} cannot be cleaned: {e.strerror}") from e


def make_private(path: Path) -> FileIdentity:
    """Make an empty file that only its owner can read, unless the file exists, and return its identity.

    An existing file is not opened: closing it would release the POSIX locks of this process on it, which SQLite uses.

    Raises:
        OSError: the file cannot be made or examined.
    """
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    return identity_of(path)


def is_private_sqlite_file(database: str | None) -> bool:
    """Whether the database of a SQLite address is the path of a file; others are in memory, or URIs, which SQLite opens for all."""
    return database not in (None, "", ":memory:") and not str(database).startswith("file:")


def require_wait(wait_s: float, *, code: str) -> float:
    """Return how long to wait for a database, if it is in range.

    Args:
        wait_s: seconds, from 0 to a day.
        code: of the error.

    Raises:
        ConfigurationError: the given code.
    """
    if not 0 <= wait_s <= _DAY_S:
        raise ConfigurationError(code, f"a wait_s of {wait_s} is not 0 to {_DAY_S} seconds")
    return wait_s


def is_still_there(path: Path, identity: FileIdentity) -> bool:
    """Whether a path still leads to this file. Data written to a file that lost its name is lost."""
    try:
        return identity_of(path) == identity
    except OSError:
        return False


def identity_of(file: Path | int) -> FileIdentity:
    """Return the identity of the file at a path or with a descriptor.

    Raises:
        OSError: the file cannot be examined.
    """
    found = os.stat(file)
    return found.st_dev, found.st_ino


def file_times(paths: Iterable[FilePath], *, suffixes: Container[str] = ()) -> FileTimes:
    """Return what changes when files change: their identities, sizes and times. Links are followed.

    Args:
        paths: files, and folders, of which the files directly inside count; what is absent or cannot be examined counts as that.
        suffixes: of the files that count in folders, lower case.
    """
    found: list[tuple[str | int, ...]] = []
    for given in paths:
        try:
            path = as_path(given)
        except ConfigurationError:  # its reader reports it
            continue
        try:
            is_folder = path.is_dir()
            files = sorted(one for one in path.iterdir() if one.suffix.lower() in suffixes) if is_folder else [path]
        except OSError as e:
            files, found = [], [*found, (str(path), e.errno or 0)]
        for file in files:
            try:
                now = file.stat()
            except OSError as e:
                found.append((str(file), e.errno or 0))
            else:
                # The time of change too: `cp -p` sets the time of modification.
                times = now.st_mtime_ns, now.st_ctime_ns
                found.append((str(file), now.st_dev, now.st_ino, now.st_size, *times))
    return tuple(found)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, which all may read and only the owner may change, whatever the umask.

    Existing folders keep their mode.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    try:
        if not path.is_dir():
            make_folder(path.parent)
            _make_one(path)
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path} cannot be made: {e.strerror}") from e


def _make_one(path: Path) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return  # another process made it at the same time, and chose its mode
    path.chmod(FOLDER)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that also lock it; waits for them.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{folder} cannot be opened: {e.strerror}") from e
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder that appears at `path` completely or not at all.

    Yields a temporary sibling to write into. It is renamed to `path` at the end, or removed if the body fails.
    An empty folder at `path` is replaced; anything else is refused.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    try:
        target = Path(os.path.realpath(path))  # for `absent/../target`, `absent` need not exist
        if path.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
            raise ConfigurationError("file.exists", f"{path} exists and is not overwritten: give a new folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except FileExistsError as e:
        raise ConfigurationError("file.unwritable", f"{path} cannot be made: a file has the place of a folder") from e
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path} cannot be made: {e.strerror}") from e
    try:
        yield temporary
        temporary.chmod(FOLDER)
        try:
            temporary.rename(target)
        except OSError as e:
            raise ConfigurationError("file.exists", f"{path} was made by another process at the same time") from e
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
