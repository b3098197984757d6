"""Fetch trusted lists into a new folder, and switch to it in one step: a symbolic link leads to the folder in use."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from tppkit._clock import as_utc
from tppkit._files import FilePath, as_path, flush_folder, locked, make_folder, new_folder, read_bounded, replace_file
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.errors import ConfigurationError, FormatError
from tppkit.trust.anchors import is_certificate_file
from tppkit.trust.fetching import Fetch
from tppkit.trust.trusted_list.fetch import LOTL_ADDRESS, FetchedLists, fetch_trusted_lists
from tppkit.trust.trusted_list.folder import LIST_SUFFIXES, SIGNERS_FOLDER
from tppkit.trust.trusted_list.xml_document import MAX_XML_BYTES

_TIME = "%Y%m%dT%H%M%S.%fZ"


def refresh_trusted_lists(
    link: FilePath,
    *,
    fetch: Fetch,
    at: datetime,
    territories: Collection[str] | None = None,
    address: str = LOTL_ADDRESS,
    progress: Callable[[str], None] | None = None,
) -> FetchedLists:
    """Fetch trusted lists into a new folder beside a link, and point the link to it.

        fetched = refresh_trusted_lists("lists", fetch=make_fetch(), at=utc_now())
        lists = load_trusted_lists("lists")

    The link leads to `LINK.<UTC time>`. The new folder begins with the lists of the present one, so a list that fails stays. After
    an error, or a kill at any time, the link leads to the present folder, or to the whole new one. The folder before the present one is
    removed. Runs at the same time wait for each other.

    Args:
        link: the link; link and folder are made if they do not exist.
        fetch: gets the bytes of an address.
        at: the present time, aware; in the name of the folder.
        territories: see `fetch_trusted_lists`.
        address: see `fetch_trusted_lists`.
        progress: see `fetch_trusted_lists`.

    Raises:
        ConfigurationError: `trusted-list.no-link`, there is a plain folder or file at `link`, or it has no name; `file.unwritable`; see
            `fetch_trusted_lists`.
        TransportError, FormatError, VerificationError: see `fetch_trusted_lists`; nothing is written.
    """
    link, at = as_path(link), as_utc(at)
    if link.name in ("", ".."):
        raise ConfigurationError(
            "trusted-list.no-link", f"{link} cannot be a link: give a name in a folder, such as lists"
        )
    make_folder(link.parent)
    with locked(link.parent):
        present = _present_folder(link, at)
        _remove(link, rf"\.{_name_pattern(link)}-\w{{8}}")  # what killed runs left
        folder = link.with_name(f"{link.name}.{at.strftime(_TIME)}")
        with new_folder(folder) as new:
            if present is not None:
                _copy(present, new)
            fetched = fetch_trusted_lists(new, fetch=fetch, territories=territories, address=address, progress=progress)
        _switch(link, folder)
        _remove(link, _name_pattern(link), keep=(folder, present or folder))
    return fetched


def _present_folder(link: Path, at: datetime) -> Path | None:
    """Return the folder that the link leads to; None without one."""
    if link.is_symlink():
        present = Path(os.path.realpath(link))
        return present if present.is_dir() else None
    if link.is_dir():
        folder = f"{link.absolute()}.{at.strftime('%Y%m%dT%H%M%SZ')}"
        words = shlex.quote(str(link)), shlex.quote(folder), shlex.quote(Path(folder).name)
        command = "mv {0} {1} && ln -s {2} {0}".format(*words)
        raise ConfigurationError(
            "trusted-list.no-link", f"{link} is a folder; it must be a link to one, so convert it: {command}"
        )
    if link.exists():
        raise ConfigurationError("trusted-list.no-link", f"{link} is a file: give another name")
    return None


def _copy(present: Path, new: Path) -> None:
    """Copy the lists and the user's own signers, but nothing else."""
    signers = present / SIGNERS_FOLDER
    try:
        lists = [one for one in present.iterdir() if one.suffix.lower() in LIST_SUFFIXES and one.is_file()]
        own = list(filter(is_certificate_file, signers.iterdir())) if signers.is_dir() else None
    except OSError as e:
        raise ConfigurationError("trust.unreadable", f"the lists in {present} cannot be read: {e.strerror}") from e
    for one in lists:
        with suppress(FormatError):  # it cannot be used, so it is fetched again
            replace_file(new / one.name, read_bounded(one, max_bytes=MAX_XML_BYTES))
    if own is not None:
        make_folder(new / SIGNERS_FOLDER)  # an empty one too: without it, other signers would be trusted
        for one in own:
            replace_file(new / SIGNERS_FOLDER / one.name, read_bounded(one, max_bytes=MAX_SOURCE_BYTES))


def _switch(link: Path, folder: Path) -> None:
    """Rename a new link over the present one, after the folder is on the disk."""
    try:
        flush_folder(folder)
        flush_folder(link.parent)
        holder = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=link.parent))
        try:
            made = holder / link.name
            made.symlink_to(folder.name)
            made.replace(link)
        finally:
            shutil.rmtree(holder, ignore_errors=True)
        flush_folder(link.parent)
    except OSError as e:
        raise ConfigurationError("file.unwritable", f"{link} cannot be replaced: {e.strerror}") from e


def _name_pattern(link: Path) -> str:
    return rf"{re.escape(link.name)}\.\d{{8}}T\d{{6}}(\.\d{{6}})?Z"


def _remove(link: Path, pattern: str, *, keep: Collection[Path] = ()) -> None:
    """Remove the folders beside the link that earlier runs made; what cannot be removed stays."""
    kept = {os.path.realpath(one) for one in keep}
    for one in list(link.parent.iterdir()):
        if re.fullmatch(pattern, one.name) and not one.is_symlink() and os.path.realpath(one) not in kept:
            shutil.rmtree(one, ignore_errors=True)
