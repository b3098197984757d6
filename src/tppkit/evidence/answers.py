"""Sealed answers of banks as records, for a provider that keeps what a bank answered.

A record has everything that its seal covers, also of the request: method and target in their columns, and the covered lines of both
heads in `header_block`, those of the answer first, then an empty line, then those of the request. So it is verified alone, without the
record of the request. Both have the same `x_request_id`; in RFC 9421 the answer also covers the signature of a sealed request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime

from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.evidence.columns import SCHEMA
from tppkit.evidence.record import (
    SOFTWARE,
    UNPLACED,
    EvidenceRecord,
    Kind,
    body_columns,
    certificate_columns,
    header_lines,
    read_header_block,
)
from tppkit.evidence.table import Entry
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.components import OF_REQUEST
from tppkit.message import Answer, Header, Message
from tppkit.seals import Format, SealPolicy, SealProfile, VerifiedAnswer, verify_answer
from tppkit.seals.answers import verify_answer_head

_BLANK = b"\r\n"
_ID = "x-request-id"


def make_answer_record(
    verified: VerifiedAnswer,
    *,
    error_code: str | None = None,
    payment_ref: str | None = None,
    consent_ref: str | None = None,
    clock_source: str = "system",
) -> EvidenceRecord:
    """Make the record of a bank's verified answer, without a place in a stream.

        record = make_answer_record(verified, payment_ref=payment_id)

    If revocation was checked, and answers about it prove the seal good, the record names these answers.

    Args:
        verified: the result of `seals.verify_answer`; its `at` becomes the time of receipt.
        error_code: the code of a refusal.
        payment_ref: the payment that it is about.
        consent_ref: the consent that it is about.
        clock_source: the clock of the time of receipt.
    """
    answer, request, profile, names = (
        verified.unverified_answer,
        verified.request,
        verified.profile,
        verified.parameters.headers,
    )
    own, asked = _covered(names, profile)
    heads = header_lines(answer.headers, own - {profile.carrier.lower()}), header_lines(request.headers, asked)
    return EvidenceRecord(
        v=SCHEMA, kind=int(Kind.ANSWER), **UNPLACED, received_at=verified.at, clock_source=clock_source, session_id=None,
        x_request_id=_request_id(names, answer.headers, request.headers), payment_ref=payment_ref, consent_ref=consent_ref,
        method=request.method, target=request.target,  # stored even if the seal does not cover them
        header_block=_BLANK.join(heads), signature_raw=", ".join(answer.values(profile.carrier)).encode("latin-1"),
        signing_input_sha256=hashlib.sha256(verified.signing_string).hexdigest(), **body_columns(answer.body),
        **certificate_columns(verified.seal, None, paths=[verified.path], at=verified.at),
        profile=profile.name, verdict="holds", software=SOFTWARE, http_status=answer.status, error_code=error_code,
    )  # fmt: skip


def read_answer(record: Entry | EvidenceRecord, seal: EidasCertificate, profile: SealProfile) -> tuple[Answer, Message]:
    """Return the answer and the request of a record, with their covered headers.

    Args:
        record: the record.
        seal: the certificate that `seal_cert` names.
        profile: the dialect that `profile` names.

    Raises:
        FormatError: `record.malformed`.
    """
    own, asked = _heads(record)
    carried = profile.certificate_headers(seal)
    replaced = {name.lower() for name, _ in carried}
    kept = [header for header in own if header[0].lower() not in replaced]
    headers = (*kept, (profile.carrier, record.signature_raw.decode("latin-1")), *carried)
    answer = Answer(record.http_status or 0, headers, record.body or b"")
    return answer, Message(record.method, record.target, tuple(asked))


def verify_answer_record(
    record: Entry | EvidenceRecord, seal: EidasCertificate, *, policy: SealPolicy, at: datetime, has_body: bool = True
) -> SignatureParameters:
    """Verify the seal of a kept answer, and that the columns of its record are what was signed.

    Args:
        record: the record.
        seal: the certificate that `seal_cert` names.
        policy: the dialect that `profile` names, and what trusts the certificate.
        at: the time to judge at, aware UTC.
        has_body: compare the body with its digest; False if it was redacted.

    Returns:
        The parameters of the signature.

    Raises:
        FormatError: `record.malformed`.
        SignatureRejected: `record.signing-input`; and the errors of `seals.verify_answer`.
    """
    # The bank's seal holds for answer and request; the signing string, the header lines and the id are those that were recorded.
    answer, request = read_answer(record, seal, policy.profile)
    verify = verify_answer if has_body else verify_answer_head
    verified = verify(answer, request=request, policy=policy, at=at)
    if hashlib.sha256(verified.signing_string).hexdigest() != record.signing_input_sha256:
        raise SignatureRejected("record.signing-input", "the signing string is not the one that was recorded")
    names, heads = verified.parameters.headers, _heads(record)
    if record.qwac_cert is not None:
        raise FormatError("record.malformed", "the record of an answer names a certificate of the connection")
    for found, covered in zip(heads, _covered(names, policy.profile), strict=True):
        for name, _ in found:
            if name.lower() not in covered:
                raise FormatError("record.malformed", f"the seal does not cover the record's {name[:200]}")
    if _request_id(names, *heads) != record.x_request_id:
        raise FormatError("record.malformed", "the record's x_request_id is not the one that was signed")
    return verified.parameters


def _heads(record: Entry | EvidenceRecord) -> tuple[list[Header], list[Header]]:
    own, blank, asked = record.header_block.partition(_BLANK + _BLANK)
    if not blank:
        raise FormatError(
            "record.malformed", "the header block of an answer has no empty line before that of the request"
        )
    return read_header_block(own + _BLANK), read_header_block(asked)


def _covered(names: Iterable[str], profile: SealProfile) -> tuple[set[str], set[str]]:
    """Return the names of the covered fields, and those that carry the seal: of the answer, and of the request."""
    own, asked = set(profile.carriers), set[str]()
    if profile.format is Format.CAVAGE:
        asked.add(_ID)  # a verifier compares it with that of the answer, which is covered
    for name in names:
        if name.startswith('"'):  # with other parameters, perhaps also `req`
            field = name[1:].partition('"')[0]
            own.add(field)
            asked.add(field)
        elif name.endswith(OF_REQUEST):
            asked.add(name.removesuffix(OF_REQUEST))
        else:
            own.add(name)
    return own, asked


def _request_id(names: Iterable[str], own: Iterable[Header], asked: Iterable[Header]) -> str:
    """Return the covered X-Request-ID of the request or the answer; empty if none is covered."""
    covered = set(names)
    for name, headers in ((_ID + OF_REQUEST, asked), (_ID, own)):
        if name in covered:
            return next((value.strip(" \t") for found, value in headers if found.lower() == _ID), "")
    return ""
