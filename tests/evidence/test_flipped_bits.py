"""One flipped bit anywhere in an archive is found by an audit with a head that another party keeps."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from audits import TSA, authority

from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives
from tppkit.evidence.log import check_log
from tppkit.evidence.proofs import stamp_archive
from tppkit.evidence.retention import hold, release
from tppkit.evidence.sealing import seal_archive

pytestmark = pytest.mark.slow

NOW = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)
BY = {"ground": "erasure", "by": "Ada", "now": NOW}
FLIPS = 100


@pytest.fixture(scope="module")
def archive(tmp_path_factory, pki, received):
    """An archive with every kind of file, and its head."""
    folder = tmp_path_factory.mktemp("flipped") / "archive"
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        for number in range(6):
            archive.append(received(number))
            if number in (1, 3):
                archive.rotate(now=NOW)
        list(seal_archive(folder))

    list(stamp_archive(folder, TSA, fetch=authority(pki)))
    hold(folder, **BY)
    release(folder, **BY)
    (folder / "lists").mkdir()
    (folder / f"lists/{hashlib.sha256(b'<list/>').hexdigest()}.xml").write_bytes(b"<list/>")
    return folder, check_log(folder, now=NOW).head


@pytest.mark.parametrize("seed", range(5))
def test_no_flipped_bit_of_any_file_passes(seed, archive, paths):
    (folder, head), plan = archive, AuditPlan(now=NOW + timedelta(days=1))
    assert audit_archives([folder], plan, heads=[head], material=paths).exit_code == 0
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert {path.suffix for path in files} == {".jsonl", ".parquet", ".json", ".tsr", ".der", ".xml"}
    random, unnoticed = Random(seed), []
    for _ in range(FLIPS):
        file = random.choice(files)
        raw = file.read_bytes()
        changed, place = bytearray(raw), random.randrange(len(raw))
        changed[place] ^= 1 << random.randrange(8)
        file.write_bytes(changed)
        if audit_archives([folder], plan, heads=[head], material=paths).exit_code == 0:
            unnoticed.append((file.relative_to(folder), place))
        file.write_bytes(raw)
    assert unnoticed == []
    assert audit_archives([folder], plan, heads=[head], material=paths).exit_code == 0
