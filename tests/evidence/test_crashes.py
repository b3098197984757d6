"""Whatever is done with an archive, killed before each access to a file or with a full disk: no record is lost or doubled."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain, count
from pathlib import Path

import pytest

from tppkit.errors import TppkitError
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives, make_record
from tppkit.evidence.log import check_log
from tppkit.evidence.operations import read_operations
from tppkit.evidence.retention import hold, prune, redact
from tppkit.evidence.sealing import seal_archive
from tppkit.evidence.segments import list_segments

pytestmark = pytest.mark.slow

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
NOW = RECEIVED + timedelta(days=1)
STREAM = "5a" * 16
BY = {"ground": "erasure", "by": "Ada", "now": NOW}
DONE, REFUSED, OTHER = 0, 3, 9
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


@pytest.fixture(scope="module")
def archives(tmp_path_factory, append):
    """Archives of records 0 to 6: `open`, with two closed parts; `sealed`, with these two sealed."""
    folder = tmp_path_factory.mktemp("crashes")
    with EvidenceArchive(folder / "open", stream_id=STREAM) as archive:
        for numbers in ((0, 1, 2), (3, 4, 5)):
            append(archive, *numbers)
            archive.rotate(now=NOW)
        append(archive, 6)
    shutil.copytree(folder / "open", folder / "sealed")
    assert len(list(seal_archive(folder / "sealed"))) == 2
    return folder


@pytest.fixture
def operations(make_verified) -> dict[str, tuple[str, Callable[[Path], object]]]:
    verified = make_verified(7)

    def write(folder: Path) -> None:
        with EvidenceArchive(folder, stream_id=STREAM) as archive:
            if len(list(list_segments(folder))) == 3:
                archive.rotate(now=NOW)
            if next(archive.newest(1), None) is None:
                archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)

    return {
        "append and rotate": ("open", write),
        "seal": ("open", lambda folder: list(seal_archive(folder))),
        "redact": ("sealed", lambda folder: redact(folder, [1, 4], **BY)),
        "prune": ("sealed", lambda folder: prune(folder, before=RECEIVED + timedelta(seconds=3), **BY)),
        "hold": ("sealed", lambda folder: hold(folder, **BY)),
    }


def in_child(action: Callable[[], object]) -> int:
    """Do something in a forked process, and return its exit code, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = OTHER
        try:
            action()
            code = DONE
        except TppkitError:
            code = REFUSED
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_before(number: int, folder: Path) -> None:
    """Kill this process before it uses a file of the archive for the given time."""
    left = number

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in EVENTS and str(arguments[0]).startswith(str(folder)):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def fill_disk(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def places(folder: Path) -> list[int]:
    """The places of all records, those of a pruned part by its manifest."""
    found: list[int] = []
    for segment in list_segments(folder):
        if segment.size is None:
            found += range(segment.manifest.first_seq, segment.manifest.end)
        else:
            found += chain.from_iterable(columns["seq"] for columns in segment.read())
    return found


def require_whole(folder: Path, name: str, head: object, paths: object) -> None:
    result = audit_archives([folder], AuditPlan(now=NOW), heads=[head], material=paths)
    codes = set(result.by_code)
    assert places(folder) == [*range(8 if name == "append and rotate" else 7)]
    assert (result.exit_code, codes) == ((3, {"record.body-redacted"}) if name == "redact" else (0, set()))
    receipts = [(one["operation"], one["records"]) for one in read_operations(folder)]
    expected = {"redact": [("redact", [[1, 1], [4, 4]])], "prune": [("prune", [[0, 2]])], "hold": [("hold", [])]}
    assert receipts == expected.get(name, [])
    assert not [path for path in folder.rglob("*") if path.suffix == ".part" or path.name.startswith(".")]


NAMES = ("append and rotate", "seal", "redact", "prune", "hold")


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_that_is_killed_at_any_step_is_completed_by_the_next(name, archives, operations, paths, tmp_path):
    start, operation = operations[name]
    head = check_log(archives / start, now=NOW).head
    for number in count():
        folder = shutil.copytree(archives / start, tmp_path / f"archive{number}")

        def killed(number: int = number, folder: Path = folder) -> None:
            kill_before(number, folder)
            operation(folder)

        code = in_child(killed)
        assert code in (DONE, -signal.SIGKILL)
        assert places(folder)[:7] == [*range(7)]  # before anything is done again
        operation(folder)
        list(seal_archive(folder)) if name != "append and rotate" else None  # removes what is half written
        require_whole(folder, name, head, paths)
        shutil.rmtree(folder)
        if code == DONE:
            break
    assert number > 5


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_on_a_full_disk_fails_and_changes_no_record(name, archives, operations, paths, tmp_path):
    start, operation = operations[name]
    head, codes = check_log(archives / start, now=NOW).head, set()
    for size in (0, 1, 100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 1 << 30):
        folder = shutil.copytree(archives / start, tmp_path / f"archive{size}")

        def full(size: int = size, folder: Path = folder) -> None:
            fill_disk(size)
            operation(folder)

        codes.add(in_child(full))
        assert places(folder)[:7] == [*range(7)]
        operation(folder)
        list(seal_archive(folder)) if name != "append and rotate" else None
        require_whole(folder, name, head, paths)
    assert codes == {DONE, REFUSED}
