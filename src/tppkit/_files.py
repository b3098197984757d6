"""Reading files with a limit, and writing them so that nothing half-written or world-readable is left behind."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tppkit.errors import ConfigurationError, FormatError

PRIVATE = 0o600
PUBLIC = 0o644
FOLDER = 0o755
_DAY_S = 86_400
FilePath = str | os.PathLike[str]


def as_path(path: FilePath) -> Path:
    """The path that a caller gave, as text or as a path.

    Raises:
        ConfigurationError: `file.path`, it is PEM text, or has a NUL. The message does not show it, as it may be a private key.
    """
    text = os.fspath(path)
    if "-----BEGIN " in text or "\0" in text:
        raise ConfigurationError(
            "file.path", "this is the content of a file, or has a NUL, where the file's name belongs"
        )
    return Path(text)


def regular_only(path: str, flags: int) -> int:
    """An opener for `open()`: opens regular files only, and waits for nothing.

    FIFOs and devices block or never end, and a link in somebody else's folder may lead to one.

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


def _not_regular(path: str) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file (links are not followed)", path)


def read_bounded(path: FilePath, *, max_bytes: int, opener: Callable[[str, int], int] | None = None) -> bytes:
    """The whole file.

    Args:
        path: the file.
        max_bytes: longest content that is accepted.
        opener: as for `open()`; `regular_only` for files of somebody else's folder.

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
    """Write a file that is not there yet, with `mode` from the first moment.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as e:
        raise ConfigurationError("file.exists", f"{path} exists and is not overwritten") from e
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
    """Write a file whole or not at all, in the place of the one that may be there.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    with replacing(path, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int = PUBLIC) -> Iterator[BinaryIO]:
    """A file to write that takes its place when the body ends, and is removed when the body fails.

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
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def remove_leftovers(path: Path) -> None:
    """Remove what programs that were killed while they replaced a file left beside it; nobody may be replacing it now.

    Raises:
        ConfigurationError: `file.unwritable`.
    """
    try:
        for leftover in path.parent.glob(f".{path.name}-*"):
            leftover.unlink(missing_ok=True)
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path.parent} cannot be cleaned: {e.strerror}") from e


class FileIdentity(NamedTuple):
    """Which file it is, whatever its name.

    Attributes:
        device: the number of its file system.
        inode: its number there.
    """

    device: int
    inode: int


def make_private(path: Path) -> FileIdentity:
    """Make an empty file for its owner alone, if none is there; says which one is there.

    A file that is there is not opened: closing it would take away the locks that this process has on it (POSIX), and SQLite's are
    such.

    Raises:
        OSError: it can neither be made nor looked at.
    """
    with suppress(FileExistsError):
        os.close(os.open(os.path.realpath(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    return _identity(path)


def require_wait(wait_s: float, *, code: str) -> float:
    """How long to wait for a database, when it can be waited so long.

    Args:
        wait_s: seconds, from 0 to a day.
        code: the error's.

    Raises:
        ConfigurationError: the given code.
    """
    if not 0 <= wait_s <= _DAY_S:
        raise ConfigurationError(code, f"a wait_s of {wait_s} is not 0 to {_DAY_S} seconds")
    return wait_s


def require_database(path: object, *, code: str) -> Path:
    """The path of a database's file. What SQLite takes for a database in memory is refused.

    Args:
        path: the database's file.
        code: the error's.

    Raises:
        ConfigurationError: `file.path`, or the given code.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ConfigurationError(code, f"a {type(path).__name__} without a name is no path of a database's file")
    file = as_path(path)
    if str(file) == ":memory:":
        raise ConfigurationError(
            code, "a database in memory is lost with its process, and no other sees it: give a file"
        )
    return file


def is_still_there(path: Path, identity: FileIdentity | None) -> bool:
    """Whether the file at a path is the one that it was (None: there was none): what is written to one without a name is lost."""
    try:
        return _identity(path) == identity
    except OSError:
        return False


def _identity(path: Path) -> FileIdentity:
    found = path.stat()
    return FileIdentity(found.st_dev, found.st_ino)


def make_folder(path: Path) -> None:
    """Make a folder that others may read and only its owner may change, whatever the umask is; those above it alike.

    What is there, or comes to be there meanwhile, keeps its mode.

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
        return  # made by another meanwhile, whose mode it has
    path.chmod(FOLDER)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other programs that change it in the same way; waits for them.

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
    """A folder that appears at `path` complete or not at all.

    Yields a temporary sibling to write into; it is renamed to `path` at the end, or removed when the body fails.
    An empty folder at `path` is taken; anything else there is refused.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    try:
        target = Path(os.path.realpath(path))  # `absent/../there` is `there`, for which `absent` need not be made
        if path.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
            raise ConfigurationError("file.exists", f"{path} exists and is not overwritten")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except FileExistsError as e:
        raise ConfigurationError(
            "file.unwritable", f"{path} cannot be made: a file stands where a folder belongs"
        ) from e
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{path} cannot be made: {e.strerror}") from e
    try:
        yield temporary
        temporary.chmod(FOLDER)
        try:
            temporary.rename(target)
        except OSError as e:
            raise ConfigurationError("file.exists", f"{path} was made by someone else meanwhile") from e
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
