from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from audits import audit_of

from tppkit.evidence import EvidenceArchive, audit_archive, make_record
from tppkit.seals import Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier


def archive_of(folder: Path, pki: Pki, seal: Seal, policy: SealPolicy, *, records: int, threads: int) -> list[int]:
    """Places in the stream that records got which several threads appended."""
    message = Message("POST", "/x", (("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),), b"{}")
    at = pki.not_before
    verified = verify_request(sign_request(message, seal=seal), qwac=pki.qwac.certificate, at=at, policy=policy)
    record = make_record(verified, qwac_chain=pki.qwac.chain)
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive, ThreadPoolExecutor(threads) as pool:
        kept = (*verified.chain, pki.qwac.certificate, *pki.qwac.chain)
        return [placed.seq for placed in pool.map(lambda _: archive.append(record, *kept), range(records))]


def test_threads_share_an_archive_without_gap_or_repetition(tmp_path, pki, seal, policy, paths):
    places = archive_of(tmp_path / "a", pki, seal, policy, records=120, threads=6)
    assert sorted(places) == list(range(120))
    summary = audit_of(tmp_path / "a", paths)
    assert (summary.records, summary.exit_code) == (120, 0)


def test_the_authorities_kept_with_a_record_complete_its_chains(tmp_path, pki, seal, policy):
    from tppkit.trust import Anchors

    archive_of(tmp_path / "a", pki, seal, policy, records=1, threads=1)
    root_only = PathVerifier(Anchors((pki.root.certificate,)))
    (row,) = audit_archive(tmp_path / "a", paths=root_only)
    assert row.code is None


def test_the_head_of_a_stream_shows_cut_off_records(tmp_path, pki, seal, policy, paths):
    archive_of(tmp_path / "a", pki, seal, policy, records=3, threads=1)
    audit = partial(audit_of, tmp_path / "a", paths)
    head = audit().heads[tmp_path / "a"]
    assert head.records == 3
    assert audit(head.leaf).exit_code == 0
    records = tmp_path / "a" / "records.jsonl"
    records.write_bytes(b"".join(records.read_bytes().splitlines(keepends=True)[:2]))
    cut = audit(head.leaf)
    assert (cut.exit_code, cut.by_code["log.head"]) == (4, 1)
    records.write_bytes(b"")
    nothing = audit()
    assert (nothing.exit_code, nothing.by_code["log.empty"]) == (3, 1)


def test_a_whole_record_that_lost_only_its_line_end_is_kept(tmp_path, pki, seal, policy, paths):
    archive_of(tmp_path / "a", pki, seal, policy, records=2, threads=1)
    records = tmp_path / "a" / "records.jsonl"
    records.write_bytes(records.read_bytes()[:-1])
    assert archive_of(tmp_path / "a", pki, seal, policy, records=1, threads=1) == [2]
    assert [row.seq for row in audit_archive(tmp_path / "a", paths=paths)] == [0, 1, 2]
