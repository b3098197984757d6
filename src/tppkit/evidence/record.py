"""A retained signature in schema `psd2.evidence/1`: as a value, as a line of JSON, and as the bytes of the leaf hash.

A record has bytes as received, not parsed values: the covered header lines, the Signature value, the body. Certificates are stored
separately by their SHA-256. The leaf hash covers all columns except `body` (only its digests) and `body_state`, so a body can be
redacted later without changing the leaf. Each record names the leaf of the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Self

from tppkit import __version__
from tppkit._clock import format_time, to_microseconds
from tppkit._encoding import encode_base64, parse_json
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.evidence.columns import (
    BYTES,
    FORMS,
    MAX_LINE_BYTES,
    SCHEMA,
    encode_cbor,
    parse_object,
    read_columns,
    read_hash,
    write_object,
)
from tppkit.evidence.files import answer_file, certificate_file, list_file
from tppkit.message import Header, Message
from tppkit.seals import Format, SealProfile, SentRequest, VerifiedRequest
from tppkit.trust import TrustedPath

FIRST_PREVIOUS = "0" * 64
SOFTWARE = f"tppkit/{__version__}"

UNPLACED: Mapping[str, Any] = MappingProxyType({"stream_id": "0" * 32, "seq": 0, "previous": FIRST_PREVIOUS})
_MAX_UNPLACED_BYTES = MAX_LINE_BYTES - 1024  # leaves room for the place, the leaf and the outbox's id
# Without the columns that redaction changes; received_at is hashed in microseconds.
_HASHED = tuple(name for name in FORMS if name not in ("body", "body_state", "received_at"))
_NO_FILES: Mapping[str, bytes] = MappingProxyType({})
_COLUMNS, _HASHED_COLUMNS = attrgetter(*FORMS), attrgetter(*_HASHED)


class Kind(IntEnum):
    """The kind of the signed message."""

    CAVAGE_REQUEST = 1
    RFC9421_REQUEST = 2
    CALLBACK = 3
    ANSWER = 4
    JWS_REQUEST = 5
    LOGIN = 6


KINDS: Mapping[Format, Kind] = MappingProxyType(
    {Format.CAVAGE: Kind.CAVAGE_REQUEST, Format.RFC9421: Kind.RFC9421_REQUEST, Format.JWS: Kind.JWS_REQUEST}
)


class BodyState(IntEnum):
    """Whether the body is in the record."""

    INLINE = 0
    REDACTED = 3
    NONE = 4


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """A stored verified request, or a verified answer with the covered parts of its request.

    Attributes:
        v: schema version, 1.
        kind: the kind of the signed message.
        stream_id: 32 hexadecimal digits that identify its sequence of records.
        seq: place in the stream, from 0 without gaps.
        previous: leaf hash of the record before, hexadecimal; zeros for the first.
        received_at: when the request arrived, aware UTC.
        clock_source: the clock of that time.
        session_id: the TLS connection, or None.
        x_request_id: the request's id.
        payment_ref: the payment of the request, or None.
        method: as on the wire.
        target: path and query as on the wire.
        header_block: the covered header lines as received, `Name: value` each ended by CR LF, in wire order, as bytes. For an answer,
            an empty line and the covered lines of its request follow.
        signature_raw: the whole value of the header with the signature, as bytes.
        signing_input_sha256: hexadecimal SHA-256 of the signing string; shows differences between versions of this software.
        body: the raw body, or None if it is not in the record.
        body_state: whether the body is in the record, and if not, why.
        body_len: its length in bytes.
        body_sha256: its SHA-256, hexadecimal.
        body_sha512: its SHA-512, hexadecimal.
        seal_cert: SHA-256 of the seal certificate, hexadecimal; None if the message is signed without a certificate.
        qwac_cert: SHA-256 of the website certificate, hexadecimal, or None.
        chain: SHA-256 of the authorities of the seal, the issuer first, then of those of the QWAC; hexadecimal.
        profile: name of the seal profile it was verified with.
        verdict: always `holds`, because only verified requests are stored.
        software: the software that verified it.
        http_status: the status of the answer, or None.
        error_code: the code of the answer, or None.
        answers: SHA-256 of the CRLs and OCSP responses that proved the certificates good at receipt, hexadecimal, or None.
        lists: SHA-256 of the trusted lists by which they were qualified, hexadecimal, or None.
        consent_ref: the consent of the request, or None.
        outbox_id: the row of the outbox it came from, or None.
        key_name: the name of the service's key that signed a callback, or None.
        public_key: that key, SubjectPublicKeyInfo in DER, or None.
        url_form: the form of the receiver's address that a callback was signed for, or None.
        direction: `sent` for a request of this provider's own; None for a received one.
        extra: columns of a later version, which are stored and hashed.
        kept_leaf: the leaf hash that the line contains; None if the record was not parsed from a line.
        files: the files that it names, content by name in the archive; empty if it was parsed.
    """

    v: int
    kind: int
    stream_id: str
    seq: int
    previous: str
    received_at: datetime
    clock_source: str
    session_id: str | None
    x_request_id: str
    payment_ref: str | None
    method: str
    target: str
    header_block: bytes
    signature_raw: bytes
    signing_input_sha256: str
    body: bytes | None
    body_state: int
    body_len: int
    body_sha256: str
    body_sha512: str
    seal_cert: str | None
    qwac_cert: str | None
    chain: tuple[str, ...]
    profile: str
    verdict: str
    software: str
    http_status: int | None
    error_code: str | None
    answers: tuple[str, ...] | None = None
    lists: tuple[str, ...] | None = None
    consent_ref: str | None = None
    outbox_id: str | None = None
    key_name: str | None = None
    public_key: bytes | None = None
    url_form: str | None = None
    direction: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    kept_leaf: str | None = field(default=None, compare=False)
    files: Mapping[str, bytes] = field(default_factory=lambda: _NO_FILES, compare=False, repr=False)
    # The columns as `unplaced` wrote them; `replace` drops it.
    _written: bytes | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def leaf(self) -> str:
        """SHA-256 over 0x00 and the hashed columns; hexadecimal."""
        return hashlib.sha256(b"\x00" + self.hashed).hexdigest()

    @property
    def hashed(self) -> bytes:
        """The deterministic CBOR of all columns except body and body_state."""
        # Columns that are None are left out, so that later versions can add columns without changing old hashes.
        columns = {name: value for name, value in zip(_HASHED, _HASHED_COLUMNS(self), strict=True) if value is not None}
        try:
            return encode_cbor(columns | {"received_at": to_microseconds(self.received_at)} | dict(self.extra))
        except (TypeError, OverflowError, UnicodeEncodeError) as e:
            raise FormatError("record.malformed", "the record has a value that cannot be hashed") from e

    def placed(self, *, stream_id: str, seq: int, previous: str) -> EvidenceRecord:
        """Return the record with a place in a stream."""
        placed = replace(self, stream_id=stream_id, seq=seq, previous=previous)
        object.__setattr__(placed, "_written", self._written)
        return placed

    def to_message(self, seal: EidasCertificate, *, profile: SealProfile) -> Message:
        """Return the request as verified: covered headers, Signature, certificate and body.

        Args:
            seal: the certificate that `seal_cert` names.
            profile: the profile that `profile` names, which decides the headers of signature and certificate.

        Raises:
            FormatError: `record.malformed`, the header block is malformed.
        """
        carried = profile.certificate_headers(seal)
        # If the seal covers the header of its certificate, use the stored certificate instead.
        replaced = {name.lower() for name, _ in carried}
        headers = [
            *(header for header in read_header_block(self.header_block) if header[0].lower() not in replaced),
            (profile.carrier, self.signature_raw.decode("latin-1")),
            *carried,
        ]
        return Message(self.method, self.target, tuple(headers), self.body or b"")

    def to_line(self, *, leaf: str | None = None) -> bytes:
        """Return a line of JSON with a line feed: bytes as base64, times as ISO 8601, and the leaf hash next to the columns.

        Args:
            leaf: the record's leaf hash if the caller has computed it.
        """
        values = {"leaf": leaf or self.leaf}
        if self._written is None:
            return write_object(self._values() | values) + b"\n"
        place = {name: getattr(self, name) for name in (*UNPLACED, "outbox_id") if getattr(self, name) is not None}
        return self._written[:-1] + b"," + write_object({**place, **values})[1:] + b"\n"

    def unplaced(self, *, outbox_id: str | None = None) -> tuple[bytes, EvidenceRecord]:
        """Return the columns as JSON, without the place in a stream and without the leaf hash, which covers the place.

        Args:
            outbox_id: see `from_unplaced`.

        Returns:
            The JSON, and the record that `from_unplaced` would read from it, without parsing it.

        Raises:
            FormatError: the record is not one that could be placed and read again; `json.too-large` if it is too long for a line.
        """
        try:
            values = self._values()
            for name in (*UNPLACED, "outbox_id"):
                values.pop(name, None)
            columns, raw = read_columns({**values, **UNPLACED}), write_object(values)
            if self.extra or len(raw) > _MAX_UNPLACED_BYTES:
                parse_json(raw, what="the record", max_bytes=_MAX_UNPLACED_BYTES)
        except (AttributeError, TypeError, ValueError, RecursionError) as e:
            raise FormatError("record.malformed", "the record has a value that cannot be written") from e
        if self.extra:  # values may change when they are parsed from JSON
            return raw, EvidenceRecord.from_unplaced(raw, outbox_id=outbox_id)
        record = EvidenceRecord(**{**columns, "outbox_id": outbox_id})
        object.__setattr__(record, "_written", raw)
        return raw, record

    def _values(self) -> dict[str, Any]:
        values = dict(zip(FORMS, _COLUMNS(self), strict=True))
        values["received_at"] = format_time(self.received_at)
        for name in ("chain", "answers", "lists"):
            values[name] = None if values[name] is None else list(values[name])
        for name in BYTES:
            values[name] = None if values[name] is None else encode_base64(values[name])
        return {name: value for name, value in values.items() if value is not None} | dict(self.extra)

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read one line of JSON.

        Raises:
            FormatError: `record.malformed`, `record.version`, `json.*`, `base64.*`, `time.malformed`.
        """
        values = parse_object(line)
        leaf = values.pop("leaf", None)
        return cls(**read_columns(values), kept_leaf=read_hash("leaf", leaf))

    @classmethod
    def from_unplaced(cls, raw: bytes, *, outbox_id: str | None = None) -> Self:
        """Read the bytes of `unplaced`.

        Args:
            raw: the bytes.
            outbox_id: the row of the outbox that has them, or None.

        Raises:
            FormatError: see `from_line`.
        """
        return cls(**read_columns({**parse_object(raw), **UNPLACED, "outbox_id": outbox_id}))


def make_record(
    verified: VerifiedRequest,
    *,
    http_status: int | None = None,
    error_code: str | None = None,
    payment_ref: str | None = None,
    session_id: str | None = None,
    clock_source: str = "system",
    consent_ref: str | None = None,
    qwac_path: TrustedPath | None = None,
) -> EvidenceRecord:
    """Make the record of a verified request, without a place in a stream.

        record = make_record(caller.seal, http_status=201, payment_ref=payment_id, qwac_path=caller.qwac_path)

    If revocation was checked, and answers prove both certificates good, the record names these answers.

    Args:
        verified: the result of `seals.verify_request`; its `at` becomes the time of receipt.
        http_status: the status of the answer.
        error_code: the code of the answer.
        payment_ref: the payment of the request.
        session_id: the TLS connection.
        clock_source: the clock of the time of receipt.
        consent_ref: the consent of the request.
        qwac_path: how the QWAC was verified, `Caller.qwac_path`: its authorities, and the answers about its revocation.
    """
    paths = [verified.path, *([qwac_path] if qwac_path else [])]
    return EvidenceRecord(
        **_request_columns(verified.unverified_message, verified.profile, verified.covered.keys(), verified.request_id),
        received_at=verified.at,
        clock_source=clock_source,
        session_id=session_id,
        payment_ref=payment_ref,
        signing_input_sha256=hashlib.sha256(verified.signing_string).hexdigest(),
        **certificate_columns(
            verified.seal, verified.qwac, paths=paths, at=verified.at, keeps_answers=qwac_path is not None
        ),
        http_status=http_status,
        error_code=error_code,
        consent_ref=consent_ref,
    )


def certificate_columns(
    seal: EidasCertificate, qwac: EidasCertificate | None, *, paths: Sequence[TrustedPath], at: datetime, keeps_answers: bool = True
) -> dict[str, Any]:  # fmt: skip
    """Return the columns about certificates, and the files that they name.

    Args:
        seal: the certificate of the seal.
        qwac: that of the connection, or None.
        paths: how they were verified.
        at: the time of receipt.
        keeps_answers: name the answers about revocation, if they prove all paths good.
    """
    chain = [certificate for path in paths for certificate in path.chain[1:]]
    named = (seal, *([qwac] if qwac else []), *chain)
    answers = {name: der for path in paths for name, der in path.answers.items()}
    if not keeps_answers or not all(_is_proven(path, answers) for path in paths):
        answers = {}
    lists = {name: xml for path in paths for name, xml in path.lists.items()}
    return {
        "seal_cert": seal.sha256, "qwac_cert": qwac.sha256 if qwac else None,
        "chain": tuple(dict.fromkeys(certificate.sha256 for certificate in chain)),
        "answers": tuple(sorted(answers)) or None, "lists": tuple(sorted(lists)) or None,
        "files": {
            **{certificate_file(one.sha256): one.der for one in named},
            **{answer_file(name, at): der for name, der in answers.items()},
            **{list_file(name): xml for name, xml in lists.items()},
        },
    }  # fmt: skip


def make_sent_record(
    sent: SentRequest, *, payment_ref: str | None = None, consent_ref: str | None = None, clock_source: str = "system"
) -> EvidenceRecord:
    """Make the record of a request of this provider's own, before it is sent, so without the answer.

        client = Psd2Client(base_url, identity=identity, keep=lambda sent: archive.append(make_sent_record(sent)))

    Args:
        sent: what a client passes to `keep`.
        payment_ref: the payment of the request.
        consent_ref: the consent of the request.
        clock_source: the clock of the time of signing.
    """
    message, prepared, (qwac, *authorities), at = sent
    profile, covered = prepared.seal.profile, frozenset(prepared.covered)
    ids = message.values(profile.request_id or "") if profile.request_id in covered else ()
    seal = prepared.seal.certificate
    return EvidenceRecord(
        **_request_columns(message, profile, covered, "".join(ids)),
        received_at=at,
        clock_source=clock_source,
        session_id=None,
        payment_ref=payment_ref,
        signing_input_sha256=hashlib.sha256(prepared.signing_string).hexdigest(),
        seal_cert=seal.sha256,
        qwac_cert=qwac.sha256,
        chain=tuple(certificate.sha256 for certificate in authorities),
        http_status=None,
        error_code=None,
        consent_ref=consent_ref,
        direction="sent",
        files={certificate_file(one.sha256): one.der for one in (seal, qwac, *authorities)},
    )


def _request_columns(message: Message, profile: SealProfile, covered: Set[str], request_id: str) -> dict[str, Any]:
    # If the signature has two headers, one has its own column and the other is stored with the covered ones.
    kept = covered | profile.carriers - {profile.carrier.lower()}
    return {
        "v": SCHEMA, "kind": int(KINDS[profile.format]), **UNPLACED, "x_request_id": request_id,
        "method": message.method, "target": message.target,  # stored even if the seal does not cover them
        "header_block": header_lines(message.headers, kept), "signature_raw": message.values(profile.carrier)[0].encode("latin-1"),
        "profile": profile.name, "verdict": "holds", "software": SOFTWARE, **body_columns(message.body),
    }  # fmt: skip


def header_lines(headers: Iterable[Header], names: Set[str]) -> bytes:
    """Return the lines of the headers with these names, in lower case, as in `header_block`."""
    return "".join([f"{name}: {value}\r\n" for name, value in headers if name.lower() in names]).encode("latin-1")


def body_columns(body: bytes) -> dict[str, Any]:
    """Return the columns about a body that is kept."""
    return {
        "body": body, "body_state": int(BodyState.INLINE if body else BodyState.NONE), "body_len": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(), "body_sha512": hashlib.sha512(body).hexdigest(),
    }  # fmt: skip


def _is_proven(path: TrustedPath, answers: Mapping[str, bytes]) -> bool:
    """Whether an answer that is at hand proves the end entity good."""
    answer = path.revocation[0].answer if path.revocation else None
    return answer is not None and answer.sha256 in answers


def read_header_block(block: bytes) -> list[Header]:
    """Parse the headers of `header_block`.

    Raises:
        FormatError: `record.malformed`.
    """
    headers = []
    *lines, rest = block.decode("latin-1").split("\r\n")
    if rest:
        raise FormatError("record.malformed", "the header block does not end with a line break")
    for line in lines:
        name, separator, value = line.partition(": ")
        if not separator:
            raise FormatError("record.malformed", "the header block has a line that is not a header")
        headers.append((name, value))
    return headers
