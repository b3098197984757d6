"""A killed writer and a full disk: acknowledged records stay, and no others are damaged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from audits import VERIFIED, audit_of

from tppkit.evidence import EvidenceArchive, EvidenceRecord, read_lines
from tppkit.trust import PathVerifier

# One record, to append again and again.
WRITER = (
    VERIFIED
    + """
import resource, signal
from pathlib import Path
from tppkit.errors import ArchiveError

record, certificates = make_record(verified), (*verified.chain, verified.qwac)
folder = Path(sys.argv[1])
archive = EvidenceArchive(folder, stream_id="5a" * 16)
"""
)

KILLED = """
while True:
    print(archive.append(record, *certificates).seq, flush=True)
"""

FULL = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
archive.append(record, *certificates[:1])
archive.append(record, *certificates[:1])
size = (folder / "records.jsonl").stat().st_size
before = (folder / "records.jsonl").read_bytes()
limit = size + {room} if {room} else 100
for _ in range(3):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        archive.append(record, *certificates)
    except ArchiveError as e:
        print(e.code)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert (folder / "records.jsonl").read_bytes() == before
archive.append(record, *certificates)
try:
    EvidenceArchive(folder, stream_id="5a" * 16)
except ArchiveError as e:
    print(e.code)
"""


def run_writer(script: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", WRITER + script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_acknowledged_records_survive_a_killed_writer(
    acknowledged: int, tmp_path: Path, paths: PathVerifier, append: Callable[..., None]
) -> None:
    command = [sys.executable, "-c", WRITER + KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            acks = [writer.stdout.readline() for _ in range(acknowledged)]
        finally:
            writer.kill()
        acks += writer.stdout.readlines()
    last = max(int(ack) for ack in acks if ack.endswith("\n"))
    with EvidenceArchive(tmp_path, stream_id="00" * 16) as archive:
        append(archive, 1)
    kept = [EvidenceRecord.from_line(line).seq for _, line in read_lines(tmp_path)]
    assert kept == list(range(len(kept)))
    assert len(kept) >= last + 2
    assert audit_of(tmp_path, paths).exit_code == 0


@pytest.mark.parametrize("room", [0, 1, 5000], ids=["certificate", "first byte", "middle"])
def test_a_full_disk_costs_only_the_record_that_did_not_fit(room: int, tmp_path: Path, paths: PathVerifier) -> None:
    assert run_writer(FULL.format(room=room), tmp_path) == ["archive.unusable"] * 3 + ["archive.locked"]
    counted = audit_of(tmp_path, paths)
    assert (counted.records, counted.exit_code) == (3, 0)


MANY = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
archive.append(record, *certificates)
size = (folder / "records.jsonl").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size * 5 // 2, resource.RLIM_INFINITY))
try:
    archive.append_many([record] * 3)
except ArchiveError as e:
    print(e.code, (folder / "records.jsonl").stat().st_size == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print([placed.seq for placed in archive.append_many([record] * 3)])
"""


def test_of_a_batch_that_does_not_fit_the_disk_nothing_is_kept(tmp_path: Path, paths: PathVerifier) -> None:
    assert run_writer(MANY, tmp_path) == ["archive.unusable True", "[1, 2, 3]"]
    assert audit_of(tmp_path, paths).exit_code == 0


FORKED = """
import os
if os.fork() == 0:
    try:
        archive.append(record)
    except ArchiveError as e:
        print(e.code, flush=True)
    os._exit(0)
os.wait()
print(archive.append(record, *certificates).seq)
"""


def test_a_forked_process_does_not_write_to_its_parents_archive(tmp_path: Path, paths: PathVerifier) -> None:
    assert run_writer(FORKED, tmp_path) == ["archive.locked", "0"]
    assert audit_of(tmp_path, paths).exit_code == 0


SET_ASIDE = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
archive.append(record, *certificates)
archive.close()
with (folder / "records.jsonl").open("ab") as file:
    file.write(b"x" * 5000)
before = (folder / "records.jsonl").read_bytes()
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    EvidenceArchive(folder, stream_id="5a" * 16)
except ArchiveError as e:
    print(e.code)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert (folder / "records.jsonl").read_bytes() == before
EvidenceArchive(folder, stream_id="5a" * 16).append(record, *certificates)
"""


def test_a_partial_line_that_cannot_be_moved_away_is_unchanged(tmp_path: Path, paths: PathVerifier) -> None:
    assert run_writer(SET_ASIDE, tmp_path) == ["archive.unusable"]
    assert b"x" * 5000 in {path.read_bytes() for path in tmp_path.glob("records.torn-*")}
    assert audit_of(tmp_path, paths).exit_code == 0
