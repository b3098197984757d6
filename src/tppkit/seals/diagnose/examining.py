"""What is wrong with one request: its digest, its signature and the rest of its seal, each looked at by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.content_digest import verify_content_digest
from tppkit.httpsig.digest import verify_digest
from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.digests import DigestFinding, explain_digest, possible_digests
from tppkit.seals.diagnose.draft import Draft, Line, Seen, fields_of, right_draft
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.form import Fault, Form, components_of
from tppkit.seals.diagnose.judging import (
    algorithm_faults,
    believing_policy,
    coverage_faults,
    key_id_faults,
    meant_algorithm,
)
from tppkit.seals.diagnose.search import Search, Signed, find_signed
from tppkit.seals.diagnose.signing import faults_of_making, hmac_secrets, is_hmac, signing_fault
from tppkit.seals.diagnose.telling import tell_digest, tell_step
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.read import read_seal


@dataclass(frozen=True, slots=True)
class Case:
    """One request that does not verify, with what it is judged by.

    Attributes:
        message: the request.
        profile: the dialect it should be in.
        readings: what its signature's parameters may say, the likeliest first.
        form: of its signature.
        candidates: certificates whose keys may have signed it.
        certificate: the first of them, which its seal should be by.
        at: judge its times at this time, or not at all.
        show_values: mask nothing.
    """

    message: Message
    profile: SealProfile
    readings: tuple[Seen, ...]
    form: Form
    candidates: tuple[EidasCertificate, ...]
    certificate: EidasCertificate
    at: datetime | None
    show_values: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in it.

    Attributes:
        search: what was signed, by whom and how.
        digest_holds: the digest fits the body, or there is none.
        digest: why it does not fit, where that is known.
        hmac: the hash, where the signature is an HMAC with a public key.
        seen: the reading of the parameters that all of this is about.
    """

    search: Search
    digest_holds: bool
    digest: DigestFinding | None
    hmac: str | None
    seen: Seen

    @property
    def digest_explained(self) -> bool:
        """The digest holds, or every part of it that does not is explained."""
        return self.digest_holds or (self.digest is not None and not self.digest.left)


def readings_of(message: Message, form: Form, profile: SealProfile) -> Iterator[Seen]:
    """What the signature's parameters may say, the likeliest first."""
    fields = fields_of(message)
    for parameters in form.readings:
        yield Seen(message, fields, components_of(message, parameters), parameters)
    if profile.format is not Format.CAVAGE:
        values = components_of(message, SignatureParameters("", "", (), b""))
        try:
            read = read_seal(message, values, believing_policy(profile))
        except (FormatError, SignatureRejected, KeyError):
            return
        lines = tuple([_line(text) for text in read.signing_string.decode("latin-1").split("\n")])
        yield Seen(message, fields, values, read.parameters, right=Draft(lines))


def _line(text: str) -> Line:
    name, colon, value = text.partition(": ")
    return Line(name, value, colon)


def examine(case: Case, max_work: int) -> Found:
    """Judge the digest, and search for what was signed."""
    holds, digest = _judge_digest(case)
    label = case.readings[0].values.get("digest", "SHA-256").partition("=")[0]
    digests = possible_digests(case.message.body, algorithm=label)
    readings = [seen._replace(digests=digests) for seen in case.readings]
    text = case.form.text or encode_base64(case.readings[0].parameters.signature)
    search = find_signed(readings, text=text, certificates=case.candidates, max_work=max_work)
    if search.signed is not None:
        return Found(search, holds, digest, None, search.signed.seen)
    return Found(search, holds, digest, _find_hmac(case, text), readings[0])


def _judge_digest(case: Case) -> tuple[bool, DigestFinding | None]:
    value = case.readings[0].values.get(case.profile.digest_name)
    if value is None:  # which is a fault of the headers where the dialect wants one
        return True, None
    body = case.message.body or case.profile.empty_content
    verify = verify_content_digest if case.profile.format is Format.RFC9421 else verify_digest
    try:
        verify(value, body)
    except (FormatError, SignatureRejected):
        written = value.replace("=:", "=").replace(":", "") if case.profile.format is Format.RFC9421 else value
        return False, explain_digest(written, case.message.body)
    return True, None


def _find_hmac(case: Case, text: str) -> str | None:
    data = right_draft(case.readings[0]).text()
    for certificate in case.candidates:
        for secret in hmac_secrets(certificate.public_key, certificate.der):
            for written in decode_any(text):
                name = is_hmac(written.raw, data, secret)
                if name:
                    return name
    return None


def faults_in(case: Case, found: Found) -> Iterator[Fault]:
    """Every mistake that was proven, in the order of verification."""
    parameters, values, signed = found.seen.parameters, found.seen.values, found.search.signed
    if case.profile.format is Format.CAVAGE:
        doubled = doubled_fields(case.message)
        yield from coverage_faults(parameters, values, doubled, case.profile, has_body=bool(case.message.body))
    if found.digest is not None:
        told = tell_digest(found.digest, values[case.profile.digest_name], case.message.body)
        yield from (Fault(mistake, told) for mistake in found.digest.mistakes)
    if parameters.key_id or case.profile.format is Format.CAVAGE:
        yield from key_id_faults(parameters.key_id, case.certificate, case.candidates, case.profile)
    signer = signed.certificate if signed else case.certificate
    yield from algorithm_faults(parameters.algorithm, signer, case.profile)
    if found.hmac is not None:
        yield signing_fault("hmac-with-public-key", f"HMAC with {found.hmac}")
    if signed is not None:
        yield from _faults_of_signature(case, signed)


def doubled_fields(message: Message) -> list[str]:
    """The names of fields that stand more than once, in lower case."""
    counts = Counter(name.lower() for name, _ in message.headers)
    return [name for name, count in counts.items() if count > 1]


def _faults_of_signature(case: Case, signed: Signed) -> Iterator[Fault]:
    owner = signed.certificate
    if owner != case.certificate:
        row = "key-of-qwac" if "web" in owner.qc.types else "key-of-other"
        yield signing_fault(row, f"it verifies with the key of {owner.subject}, serial {owner.serial:X}")
    if signed.written.name:
        told = f"{len(case.form.text)} characters give the {len(signed.written.raw)} bytes of a signature when read so"
        yield signing_fault(f"signature-{signed.written.name}", told)
    expected = meant_algorithm(signed.seen.parameters.algorithm, owner, case.profile, signed.made)
    yield from faults_of_making(signed.made, expected)
    before = signed.right
    for mistake, after in zip(signed.mistakes, signed.steps, strict=True):
        yield Fault(mistake, tell_step(before, after, show_values=case.show_values))
        before = after
