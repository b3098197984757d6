"""The audit of an archive, against the bare signature operations of the same records, and what records cost on the disk.

Two processes verify a segment of different requests at the same time, each in turns with a loop over the raw signatures.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time_ns
from uuid import UUID

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509 import load_pem_x509_certificate

from harness import Curve, Line, Subject, by_size, counted, judged, rated, seconds
from inbox import resident
from tppkit.evidence import AuditPlan, EvidenceArchive, make_record
from tppkit.evidence.merge import merge_results
from tppkit.evidence.runner import audit_segment
from tppkit.evidence.sealing import seal_archive
from tppkit.evidence.segments import Segment, list_segments
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import certificate_pem, make_pki
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)
TARGET = "/psd2/v1/payments/sepa-credit-transfers"
RECORDS, TURNS, PROCESSES = 8_192, 4, 2  # turns: also of a curve, with at least one audit at each size
FEW, SEGMENTS = 4, 123  # a million records
PART, PARTS = 1_000, (1, 10, 100)  # records of a sealed part; how many parts
ENDPOINTS = tuple((row.method, row.path, row.role) for row in PSD2.endpoints)
# key, bytes a record, share of the raw operations
KEYS = (("rsa2048", "RSA-2048", 620, 0.35), ("p256", "P-256", 430, 0.60))


def auditing() -> Iterator[Line]:
    """Verification beside raw signatures, on as many processes; bytes; the merge; lines beside sealed parts."""
    for key, name, most_bytes, least in KEYS:
        with (
            TemporaryDirectory() as folder,
            ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as processes,
        ):
            fill(Path(folder), key=key)
            turns = [*chain.from_iterable(processes.map(in_turns, [Path(folder)] * PROCESSES))]
            yield rated(
                f"audit {name}", [raw / one for raw, one, _ in turns], what=f"of raw {name} verify", at_least=least
            )
            yield judged(
                f"audit of lines {name}", [line / one for _, one, line in turns], what="of sealed parts", limit=2.5
            )
            size = sum(path.stat().st_size for path in (Path(folder) / "sealed" / "segments").iterdir())
            yield counted(f"evidence {name}", round(size / RECORDS), what="bytes a record", at_most=most_bytes)
            if key == "p256":
                yield counted("merge of results", merging(Path(folder)), what="ns a record", at_most=1_000)


def auditing_long() -> Iterator[Line]:
    """The memory of a process that verifies a million records, and of the merge of their results, above that for one segment."""
    with TemporaryDirectory() as folder, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        fill(Path(folder), key="p256", records=RECORDS)
        worker, merge = process.submit(growing, Path(folder), FEW, SEGMENTS).result()
    yield counted("memory of an audit of a million", worker, what="KiB more", at_most=32_768)
    yield counted("memory of its merge", merge, what="KiB more", at_most=16_384)


def auditing_by_records() -> Curve:
    """The audit of so many records in one process, from reading them to the joined result."""
    with TemporaryDirectory() as folder:
        fill(Path(folder), key="p256", records=PART)
        plan, work = plan_of(Path(folder)), Path(folder) / "work"
        streams = copies(Path(folder), max(PARTS))

        def audit(parts: int) -> None:
            keys = [audit_segment(one, plan, work) for one in streams[:parts]]
            merge_results(streams[:parts], keys, work=work, plan_digest="")

        sides = {parts * PART: (partial(audit, parts), max(PARTS) // parts // TURNS or 1) for parts in PARTS}
        return by_size("audit of an archive", sides, unit="records", turns=TURNS, clock=thread_time_ns)


def plan_of(folder: Path) -> AuditPlan:
    return AuditPlan(now=AT + timedelta(days=2), trust=str(folder / "trust.pem"), endpoints=ENDPOINTS)


def fill(folder: Path, *, key: str, records: int = RECORDS) -> None:
    """Write an archive of requests with bodies of 250 bytes, as lines and sealed."""
    pki = make_pki(at=AT, key=key)
    (folder / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    (folder / "work").mkdir()
    policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))

    def verified(number: int) -> VerifiedRequest:
        body = b'{"instructedAmount":{"currency":"EUR","amount":"%d.50"}}' % number
        message = Message(
            "POST", TARGET, (("X-Request-ID", str(UUID(int=number * 0x9E3779B97F4A7C15))),), body.ljust(250)
        )
        at = AT + timedelta(seconds=number)
        return verify_request(sign_request(message, seal=seal), qwac=pki.qwac.certificate, at=at, policy=policy)

    requests = [verified(number) for number in range(records)]
    kept = [make_record(one, http_status=201, payment_ref=str(UUID(int=n))) for n, one in enumerate(requests)]
    for which in ("lines", "sealed"):
        with EvidenceArchive(folder / which, stream_id="5a" * 16) as archive:
            archive.append(kept[0], *requests[0].chain, pki.qwac.certificate)
            archive.append_many(kept[1:])
            archive.rotate(now=AT + timedelta(days=1))
    assert len(list(seal_archive(folder / "sealed"))) == 1
    signed = [(one.parameters.signature, one.signing_string) for one in requests]
    (folder / "signed").write_bytes(pickle.dumps((certificate_pem(pki.qseal.certificate), signed)))


def in_turns(folder: Path) -> list[tuple[float, float, float]]:
    """The seconds of this thread for all raw signatures, the sealed part and the lines, some times."""
    pem, signed = pickle.loads((folder / "signed").read_bytes())  # noqa: S301  # `fill` wrote it
    verify = raw_verify(load_pem_x509_certificate(pem).public_key())
    plan, work = plan_of(folder), folder / "work"
    segments = [list_segments(folder / which)[0] for which in ("sealed", "lines")]

    def raw() -> None:
        for signature, data in signed:
            verify(signature, data)

    sides: list[Subject] = [raw, *(partial(audit_segment, segment, plan, work) for segment in segments)]
    for side in sides:
        side()
    return [tuple([seconds(side, 1, thread_time_ns) for side in sides]) for _ in range(TURNS)]


def raw_verify(public: CertificatePublicKeyTypes) -> Callable[[bytes, bytes], None]:
    if isinstance(public, rsa.RSAPublicKey):
        scheme, digest = padding.PKCS1v15(), hashes.SHA256()
        return lambda signature, data: public.verify(signature, data, scheme, digest)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    ecdsa = ec.ECDSA(hashes.SHA256())
    return lambda signature, data: public.verify(signature, data, ecdsa)


def merging(folder: Path) -> int:
    """The nanoseconds a record to join the results of a segment."""
    plan, work = plan_of(folder), folder / "work"
    segments = list_segments(folder / "sealed")[:1]
    keys = [audit_segment(segments[0], plan, work)]
    merge = partial(merge_results, segments, keys, work=work, plan_digest="")
    return round(min(seconds(merge, 1, thread_time_ns) for _ in range(20)) / RECORDS * 1e9)


def growing(folder: Path, few: int, segments: int) -> tuple[int, int]:
    """The KiB that this process has more after many segments than after a few, when it verifies them, and when it joins the results."""
    plan, work = plan_of(folder), folder / "work"
    streams = copies(folder, segments)
    held = []
    for part in (streams[:few], streams[few:]):
        keys = [audit_segment(one, plan, work) for one in part]
        held.append(resident())
    for part in (streams[:few], streams):
        merge_results(part, keys[:1] * len(part), work=work, plan_digest="")
        held.append(resident())
    return max(held[1] - held[0], 0) // 1024, max(held[3] - held[2], 0) // 1024


def copies(folder: Path, count: int) -> list[Segment]:
    """The sealed part so many times, each time as another stream: joined, copies of one would be forks."""
    segment = list_segments(folder / "sealed")[0]
    assert segment.manifest is not None
    return [replace(segment, manifest=replace(segment.manifest, stream_id=f"{number:032x}")) for number in range(count)]
