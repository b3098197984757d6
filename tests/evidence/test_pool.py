"""The audit in several processes: the same result as in one, whatever happens to the processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from programs import needed
from tppkit.errors import ConfigurationError
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives, make_record
from tppkit.evidence.pool import Done, Progress, run_in_processes
from tppkit.evidence.runner import Shard
from tppkit.evidence.sealing import seal_archive
from tppkit.evidence.segments import Segment, list_segments
from tppkit.testpki import certificate_pem

LATER = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)
PARTS, RECORDS = 3, 256


def job(fatal: str, segment: Segment, progress: Progress) -> str:
    progress(1)
    if fatal == "kill" and segment.first_seq == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if fatal == "raise":
        raise ConfigurationError("trust.no-anchors", "no trust material")
    return segment.name


@pytest.mark.slow
def test_a_process_that_dies_costs_its_segment_only(sealed):
    segments = list_segments(sealed[0])
    counted: list[int] = []
    done = list(run_in_processes(enumerate(segments), partial(job, "kill"), workers=1, progress=counted.append))
    names = [segment.name for segment in segments]
    assert done == [Done(0, names[0]), Done(1, None, "signal 9"), Done(2, names[2])]
    assert (counted, active_children()) == ([1, 1, 1], [])


def test_an_error_ends_every_process(sealed):
    segments = list_segments(sealed[0])
    with pytest.raises(ConfigurationError, match="no trust material"):
        list(run_in_processes(enumerate(segments), partial(job, "raise"), workers=2, progress=None))
    assert active_children() == []


@pytest.fixture(scope="module")
def large(tmp_path_factory, make_verified, pki):
    """An archive of three sealed parts and an open one, each of several batches, the plan to audit it by, and its whole result."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    verified = make_verified(0)
    with EvidenceArchive(folder / "archive", stream_id="5a" * 16) as archive:
        record = archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)
        for _ in range(PARTS):
            archive.append_many([record] * RECORDS)
            archive.rotate(now=LATER)
        archive.append_many([record] * RECORDS)
    assert len(list(seal_archive(folder / "archive"))) == PARTS
    plan = AuditPlan(now=LATER, trust=str(folder / "trust.pem"))
    return folder / "archive", plan, audit_archives([folder / "archive"], plan)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_number_of_processes_and_shares_has_the_same_result(large, workers, tmp_path):
    folder, plan, whole = large
    assert (whole.exit_code, whole.records) == (0, 1 + (PARTS + 1) * RECORDS)
    counted: list[int] = []
    result = audit_archives([folder], plan, workers=workers, progress=counted.append)
    assert (result.report_hash, result.heads, sum(counted)) == (whole.report_hash, whole.heads, whole.records)
    shares = [audit_archives([folder], plan, work=tmp_path, workers=workers, shard=Shard(i, 3)) for i in range(3)]
    assert [(share.exit_code, share.heads, share.report_hash) for share in shares] == [(0, (), "")] * 3
    assert sum(share.records for share in shares) == whole.records
    results = sorted(tmp_path.iterdir())
    assert audit_archives([folder], plan, work=tmp_path, resume=True).report_hash == whole.report_hash
    assert sorted(tmp_path.iterdir()) == results


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_an_audit_whose_processes_were_killed_names_what_is_missing_and_can_be_resumed(large, workers, tmp_path):
    folder, plan, whole = large

    def kill(_: int) -> None:
        for process in active_children():
            process.kill()

    killed = audit_archives([folder], plan, work=tmp_path, workers=workers, progress=kill)
    assert (killed.exit_code, killed.unreadable[0].code) == (5, "archive.unreadable")
    assert "was not verified: the process that read it ended with signal 9" in killed.unreadable[0].message
    again = audit_archives([folder], plan, work=tmp_path, workers=workers, resume=True)
    assert (again.exit_code, again.report_hash) == (0, whole.report_hash)


def children(parent: int) -> set[int]:
    """The processes that a process started and that still run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and fields[0] != "Z":
                found.add(int(stat.parent.name))
    return found


SPARK = """
import json, sys
from pathlib import Path
from tppkit._clock import parse_time
from tppkit.evidence import AuditPlan, audit_archives

archive, work, trust, now = sys.argv[1:]
result = audit_archives([archive], AuditPlan(now=parse_time(now), trust=trust), work=work, engine="spark")
print(json.dumps([result.exit_code, result.report_hash]))
"""


@pytest.mark.slow
def test_spark_has_the_same_result_also_if_one_of_its_workers_is_killed(large, tmp_path):
    needed("java", "openjdk-17-jre-headless")
    folder, plan, whole = large
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": "--master local[2,4] pyspark-shell",
    }  # fmt: skip
    command = [sys.executable, "-c", SPARK, folder, tmp_path, plan.trust, "2026-06-02T12:00:00Z"]
    driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed = None
    while killed is None and driver.poll() is None:
        time.sleep(0.01)
        if any(tmp_path.glob(".*.csv-*")):  # a worker has begun: driver, Java, the daemon of workers, workers
            for java in children(driver.pid):
                for worker in [worker for daemon in children(java) for worker in children(daemon)][:1]:
                    os.kill(killed := worker, signal.SIGKILL)
    stdout, stderr = driver.communicate(timeout=240)
    assert killed is not None, stderr
    assert json.loads(stdout) == [0, whole.report_hash], stderr
    assert "this machine verifies what is left" not in stderr
