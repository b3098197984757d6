"""A killed writer and a full disk: acknowledged records stay, and no others are damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from audits import VERIFIED, audit_of

from tppkit.evidence import EvidenceArchive, EvidenceRecord
from tppkit.evidence.archive import read_lines

pytestmark = pytest.mark.slow

# One record, to append again and again.
WRITER = (
    VERIFIED
    + """
import resource, signal
from pathlib import Path
from tppkit.errors import ArchiveError

record, certificates = make_record(verified), (*verified.chain, verified.qwac)
folder = Path(sys.argv[1])
file = folder / "records.jsonl"
archive = EvidenceArchive(folder, stream_id="5a" * 16)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def attempt(action, limit=resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        action()
    except ArchiveError as e:
        print(e.code, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
)

KILLED = """
while True:
    print(archive.append(record, *certificates).seq, flush=True)
"""

FULL = """
archive.append(record, *certificates[:1])
archive.append(record, *certificates[:1])
before = file.read_bytes()
for _ in range(3):
    attempt(lambda: archive.append(record, *certificates), len(before) + {room} if {room} else 100)
    assert file.read_bytes() == before
archive.append(record, *certificates)
attempt(lambda: EvidenceArchive(folder, stream_id="5a" * 16))
"""


def run_writer(script: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", WRITER + script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_acknowledged_records_survive_a_killed_writer(acknowledged, tmp_path, paths, append):
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
def test_a_full_disk_costs_only_the_record_that_did_not_fit(room, tmp_path, paths):
    assert run_writer(FULL.format(room=room), tmp_path) == ["archive.unusable"] * 3 + ["archive.locked"]
    counted = audit_of(tmp_path, paths)
    assert (counted.records, counted.exit_code) == (3, 0)


BATCH = """
archive.append(record, *certificates)
size = file.stat().st_size
attempt(lambda: archive.append_many([record] * 3), size * 5 // 2)
print(file.stat().st_size == size)
print([placed.seq for placed in archive.append_many([record] * 3)])
"""
FULL_OUTBOX = """
from sqlalchemy import MetaData, create_engine
from tppkit.evidence.outbox import Outbox

archive.append_many([record] * 20)  # larger than the database
metadata, engine = MetaData(), create_engine(f"sqlite:///{folder}.sqlite")
outbox = Outbox(archive, metadata)
metadata.create_all(engine)

def pay():
    with engine.begin() as db:
        outbox.add(db, record, *certificates)
    print("201")

attempt(pay, file.stat().st_size)
attempt(lambda: outbox.drain(engine), file.stat().st_size)
print([outbox.drain(engine), outbox.drain(engine)])
"""
FORKED = """
import os
if os.fork() == 0:
    attempt(lambda: archive.append(record))
    os._exit(0)
os.wait()
print(archive.append(record, *certificates).seq)
"""
TORN = """
archive.append(record, *certificates)
archive.close()
with file.open("ab") as appended:
    appended.write(b"x" * 5000)
before = file.read_bytes()
attempt(lambda: EvidenceArchive(folder, stream_id="5a" * 16), 100)
assert file.read_bytes() == before
EvidenceArchive(folder, stream_id="5a" * 16).append(record, *certificates)
print([path.read_bytes() == b"x" * 5000 for path in folder.glob("records.torn-*")].count(True))
"""


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        (BATCH, ["archive.unusable", "True", "[1, 2, 3]"]),
        (FULL_OUTBOX, ["201", "archive.unusable", "[1, 0]"]),
        (FORKED, ["archive.locked", "0"]),
        (TORN, ["archive.unusable", "1"]),
    ],
    ids=[
        "a batch that does not fit the disk",
        "an outbox whose archive is full",
        "a forked process",
        "a partial line that cannot be moved away",
    ],
)
def test_what_cannot_be_written_leaves_the_archive_as_it_was(script, printed, tmp_path, paths):
    assert run_writer(script, tmp_path) == printed
    assert audit_of(tmp_path, paths).exit_code == 0
