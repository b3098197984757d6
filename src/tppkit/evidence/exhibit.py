"""One record in full: every check of it, its place in the log, and a bundle that proves both with bash and openssl alone.

exhibit = examine(find_record("evidence", "42"), paths=load_trust(trust="pki", now=utc_now()))
[(step.name, step.state) for step in exhibit.steps]
write_bundle(exhibit, "exhibit", paths=paths)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.resources import files
from typing import NamedTuple

from tppkit._clock import from_microseconds
from tppkit._files import PRIVATE, FilePath, as_path, new_folder, read_bounded, regular_only, write_new
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import FormatError, TppkitError, VerificationError
from tppkit.evidence.answers import read_answer
from tppkit.evidence.audit import stamp_paths
from tppkit.evidence.checks import Checks, RecordVerdict, dialect_of
from tppkit.evidence.columns import UNCERTIFIED
from tppkit.evidence.files import answer_file, load_certificate
from tppkit.evidence.lookup import FoundRecord, Place, prove_place
from tppkit.evidence.record import EvidenceRecord, Kind
from tppkit.evidence.verdicts import is_unproved, step_of
from tppkit.httpsig.components import STATUS
from tppkit.httpsig.signing_string import message_components
from tppkit.seals import ANSWER_PROFILES, SealPolicy
from tppkit.seals.answers import read_answer_seal
from tppkit.seals.policy import Paths
from tppkit.seals.verify import ReadSeal, read_seal

_ORGANIZATIONS = OrganizationPolicy()
_MAX_ANSWER_BYTES = 16 * 1024 * 1024
HOLDS, FAILS, UNDECIDED, NOT_CHECKED = "holds", "FAILS", "undecided", "not checked"
_STEPS = (
    "the record is as it was written",
    "the body is the one that was received",
    "the certificates of seal and connection are trusted",
    "the seal holds for the request",
    "the record names what was signed",
    "the provider has the role for the endpoint",
    "the algorithm is still accepted",
)
_OF_ANSWERS = {2: "the certificate of the bank's seal is trusted", 3: "the seal holds for the answer and its request"}
_OF_BODY = {3: "the seal holds for the body and the request id, and proves neither status, method nor target"}
_UNCHECKED = frozenset({"trust.no-anchors", "record.body-redacted", "record.unconfirmed-key"})


class Step(NamedTuple):
    """One of the checks of a record.

    Attributes:
        name: what is claimed.
        state: `holds`, `FAILS`, `undecided` (the material at hand neither proves nor disproves it) or `not checked`.
        why: the failures, or why it was not checked; empty if it holds.
        codes: the codes of the failures.
    """

    name: str
    state: str
    why: str = ""
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What is known about one record.

        exhibit = examine(find_record("evidence", "42"), paths=paths)
        exhibit.verdict.code, exhibit.place.head.text

    Attributes:
        found: the record and where it is.
        record: the record.
        verdict: what the checks found.
        steps: the checks one by one.
        seal: the certificate of the seal, or None if it is missing or damaged.
        qwac: the certificate of the connection, likewise.
        place: the proof of its place in the log, or None.
        place_fault: why there is none.
    """

    found: FoundRecord
    record: EvidenceRecord
    verdict: RecordVerdict
    steps: tuple[Step, ...]
    seal: EidasCertificate | None
    qwac: EidasCertificate | None
    place: Place | None
    place_fault: TppkitError | None


def examine(
    found: FoundRecord,
    *,
    paths: Paths,
    organizations: OrganizationPolicy = _ORGANIZATIONS,
    role_of: Callable[[str, str], str | None] = lambda method, target: None,
    now: datetime | None = None,
) -> Exhibit:
    """Check one record at its time of receipt, as the audit does, and prove its place in the log.

    Args:
        found: the record.
        paths: verifies certificates; without authorities, steps that need them are not checked.
        organizations: the accepted organizationIdentifiers.
        role_of: returns the role that a method and target need, or None.
        now: the present, aware UTC, at which algorithms are judged unless a time stamp is older; None: none has ended.

    Raises:
        ArchiveError: `archive.unreadable`.
    """
    record, load = found.record, partial(load_certificate, found.segment.archive)
    seal, qwac = _load(load, record.seal_cert), _load(load, record.qwac_cert)
    place: Place | None = None
    fault: TppkitError | None = None
    try:
        place = prove_place(found)
    except FormatError as e:
        fault = e
    proof = None
    if now is not None and place is not None and place.stamp is not None:
        from tppkit.evidence.proofs import proof_of  # an archive without stamps needs no extra

        proof = proof_of(found.segment, paths=stamp_paths(paths), now=now)
    checks = Checks(paths, archive=found.segment.archive, organizations=organizations, role_of=role_of, now=now)
    (verdict,) = checks.rows(found.columns, proof=proof)
    needs_role = role_of(record.method, record.target) is not None and not 400 <= (record.http_status or 0) < 500
    steps = tuple(_steps(verdict, seal, qwac, needs_role=needs_role))
    return Exhibit(found, record, verdict, steps, seal, qwac, place, fault)


def _load(load: Callable[[str], EidasCertificate], sha256: str | None) -> EidasCertificate | None:
    with suppress(FormatError):
        return None if sha256 is None else load(sha256)
    return None


def _steps(
    verdict: RecordVerdict, seal: EidasCertificate | None, qwac: EidasCertificate | None, *, needs_role: bool
) -> Iterator[Step]:
    failures: dict[int, list[tuple[str, str]]] = {}
    for code, message in verdict.failures:
        failures.setdefault(step_of(code) - 1, []).append((code, message))
    skipped = {}
    if verdict.key is None and seal is None:
        skipped[3] = "the certificate of the seal is missing or damaged"
    if 3 in skipped or 3 in failures:
        skipped[4] = "the seal does not hold"
    if verdict.key is not None:
        skipped[5] = "a callback needs no role"
    elif verdict.kind == Kind.ANSWER:
        skipped[5] = "an answer needs none; its seal is one of a bank (PSP_AS)"
    elif qwac is None:
        skipped[5] = "the certificate of the connection is missing or damaged"
    elif not needs_role:
        skipped[5] = "the endpoint needs no role, or the request was rejected"
    names: dict[int, str] = {}
    if verdict.kind == Kind.ANSWER:
        dialect = ANSWER_PROFILES.get(verdict.profile or "")
        names = _OF_ANSWERS if dialect is None or STATUS in dialect.demanded else _OF_ANSWERS | _OF_BODY
    for number, usual in enumerate(_STEPS):
        name = names.get(number, usual)
        found = failures.get(number, [])
        why = "; ".join(f"{message} [{code}]" for code, message in found)
        codes = tuple(code for code, _ in found)
        if found:
            state = UNDECIDED if all(map(is_unproved, codes)) else FAILS
            yield Step(name, NOT_CHECKED if _UNCHECKED.issuperset(codes) else state, why, codes)
        else:
            yield Step(name, NOT_CHECKED if number in skipped else HOLDS, skipped.get(number, ""))


def _read_signed(exhibit: Exhibit, paths: Paths) -> ReadSeal:
    """Return the signing string and the signature of a record, which need not hold."""
    record, profile = exhibit.record, dialect_of(exhibit.record)
    if record.kind in UNCERTIFIED:
        raise FormatError(
            "record.unknown-kind",
            "a bundle is for sealed requests; the record of a callback itself has key and signature",
        )
    if profile is None:
        raise FormatError("record.unknown-profile", f"the record names the profile {record.profile[:40]!r}")
    if exhibit.seal is None:
        raise FormatError("record.certificate", "the certificate of the seal is missing or damaged")
    if record.kind == Kind.ANSWER:
        return read_answer_seal(*read_answer(record, exhibit.seal, profile), SealPolicy(paths, profile=profile))
    message = record.to_message(exhibit.seal, profile=profile)
    return read_seal(message, message_components(message)[0], SealPolicy(paths, profile=profile))


def write_bundle(exhibit: Exhibit, folder: FilePath, *, paths: Paths) -> tuple[str, ...]:
    """Write a record with all that proves it into a new folder, and a script that verifies it with bash and openssl alone.

    Args:
        exhibit: the record, which need not hold.
        folder: the new folder.
        paths: decides which authority each certificate chains to; without, it is the highest that was stored with the record.

    Returns:
        The names of the files.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
        FormatError, SignatureRejected: the record cannot be proven at all: its place in the log is unknown (`head.unknown`,
            `manifest.malformed`), or its seal cannot be read.
    """
    if exhibit.place is None:
        raise exhibit.place_fault or FormatError("head.unknown", "the place of the record in the log is not known")
    contents = _contents(exhibit, exhibit.place, paths)
    with new_folder(as_path(folder)) as new:
        for name, content in contents.items():
            (new / name).parent.mkdir(exist_ok=True)
            write_new(new / name, content, mode=PRIVATE)
    return tuple(contents)


def _contents(exhibit: Exhibit, place: Place, paths: Paths) -> dict[str, bytes]:
    contents = {
        **dict(_proofs(exhibit, place, paths)),
        **_certificates(exhibit, paths),
        **dict(_answers(exhibit)),
        **dict(_stamp(place, paths)),
        "verify.sh": files("tppkit.evidence").joinpath("verify.sh").read_bytes(),
    }
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items())]
    return {**contents, "SHA256SUMS": "".join(sums).encode()}


def _proofs(exhibit: Exhibit, place: Place, paths: Paths) -> Iterator[tuple[str, bytes]]:
    record, signed = exhibit.record, _read_signed(exhibit, paths)
    if "record.body-redacted" not in {code for code, _ in exhibit.verdict.failures}:
        yield "body.bin", record.body or b""
    yield "signing-string.txt", signed.signing_string
    yield "signature.bin", signed.parameters.signature
    yield "record.cbor", record.hashed
    yield "path.txt", "".join(f"{node.hex()}\n" for node in place.path).encode()
    yield "head.txt", place.head.text.encode()


def _certificates(exhibit: Exhibit, paths: Paths) -> dict[str, bytes]:
    load = partial(load_certificate, exhibit.found.segment.archive)
    stored = [one for name in exhibit.record.chain if (one := _load(load, name)) is not None]
    found: dict[str, bytes] = {}
    for name, certificate, use in (("seal", exhibit.seal, Use.QSEALC), ("qwac", exhibit.qwac, Use.QWAC)):
        if certificate is None:
            continue
        found[f"{name}.der"] = certificate.der
        chain = [certificate]
        while (above := next((one for one in stored if one.subject == chain[-1].issuer), None)) and above not in chain:
            chain.append(above)
        with suppress(TppkitError):
            at = from_microseconds(exhibit.found.columns["received_at"][0])
            chain = [*paths.verify_use(certificate, as_=use, at=at, intermediates=stored).chain]
        found |= {f"authorities/{one.sha256}.der": one.der for one in chain[1:-1]}
        if chain[1:]:
            found[f"{name}-anchor.der"] = chain[-1].der
    return found


def _answers(exhibit: Exhibit) -> Iterator[tuple[str, bytes]]:
    record = exhibit.record
    for name in record.answers or ():
        file = exhibit.found.segment.archive / answer_file(name, record.received_at)
        with suppress(FormatError):  # verify.sh says that it is missing
            yield f"answers/{name}.der", read_bounded(file, max_bytes=_MAX_ANSWER_BYTES, opener=regular_only)


def _stamp(place: Place, paths: Paths) -> Iterator[tuple[str, bytes]]:
    if place.stamp is None:
        return
    from tppkit.evidence.stamps import verify_stamp  # an archive without stamps needs no extra

    raw = read_bounded(place.stamp, max_bytes=_MAX_ANSWER_BYTES, opener=regular_only)
    yield "head.tsr", raw
    verifier = stamp_paths(paths)
    if verifier is None:
        return
    with suppress(FormatError, VerificationError):  # verify.sh says that it does not hold, or has no authority
        chain = verify_stamp(raw, place.head, paths=verifier).chain
        yield "stamp-anchor.der", chain[-1].der
        yield from ((f"authorities/{one.sha256}.der", one.der) for one in chain[1:-1])
