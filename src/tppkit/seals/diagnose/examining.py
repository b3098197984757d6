"""What is wrong with one request: its digest, its signature and the rest of its seal, each looked at by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.components import Origin
from tppkit.httpsig.content_digest import verify_content_digest
from tppkit.httpsig.digest import verify_digest
from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.digests import (
    DIGEST_REPLACED,
    DIGEST_RFC_3230,
    DigestFinding,
    algorithm_of_digest_faults,
    explain_digest,
    possible_digests,
)
from tppkit.seals.diagnose.draft import Draft, Line, Seen, fields_of, right_draft
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.form import Fault, Form, components_of, time_faults
from tppkit.seals.diagnose.judging import (
    Given,
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
from tppkit.seals.verify import read_seal

_OF_COVERAGE = ("uncovered", "covered-too-much", "covered-absent")


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
        given: what else it is judged by.
        show_values: mask nothing.
    """

    message: Message
    profile: SealProfile
    readings: tuple[Seen, ...]
    form: Form
    candidates: tuple[EidasCertificate, ...]
    certificate: EidasCertificate
    given: Given
    show_values: bool


class DigestState(Enum):
    """How the digest of a request and its body are to each other."""

    HOLDS = "it fits the body"
    ABSENT = "there is none"
    REPLACED = "it does not fit; the one that was signed does, so it was changed after signing"
    FAILS = "it does not fit"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in it.

    Attributes:
        search: what was signed, by whom and how.
        state: of the digest.
        digest: why it does not fit, where that is known.
        hmac: the hash, where the signature is an HMAC with a public key.
        seen: the reading of the parameters that all of this is about.
    """

    search: Search
    state: DigestState
    digest: DigestFinding | None
    hmac: str | None
    seen: Seen

    @property
    def digest_explained(self) -> bool:
        """The digest holds, or every part of it that does not is explained."""
        return self.state is not DigestState.FAILS or (self.digest is not None and not self.digest.left)


def readings_of(message: Message, form: Form, profile: SealProfile, origin: Origin | None) -> Iterator[Seen]:
    """What the signature's parameters may say, the likeliest first."""
    fields = fields_of(message)
    for parameters, prefix in zip(form.readings, form.prefixes or ("",) * len(form.readings), strict=True):
        values = components_of(message, parameters)
        seen = Seen(message, fields, values, parameters, digest_name=profile.digest_name)
        yield seen._replace(right=right_draft(seen)._replace(prefix=prefix), payload=form.payload) if prefix else seen
    if profile.format is Format.RFC9421:
        values = components_of(message, SignatureParameters("", "", (), b""))
        try:
            read = read_seal(message, values, believing_policy(profile, origin))
        except (FormatError, SignatureRejected, KeyError):
            return
        right = _draft_of(read.signing_string.decode("latin-1"))
        yield Seen(message, fields, values, read.parameters, digest_name=profile.digest_name, right=right)


def _draft_of(text: str) -> Draft:
    lines = [line.partition(": ") for line in text.split("\n")]
    return Draft(tuple([Line(name, value, colon) for name, colon, value in lines]))


def examine(case: Case, max_work: int) -> Found:
    """Judge the digest, and search for what was signed."""
    first = case.readings[0]
    value = first.values.get(case.profile.digest_name)
    as_content = case.profile.format is Format.RFC9421
    digests = possible_digests(case.message.body, like=value or "", colons=as_content)
    readings = [seen._replace(digests=digests) for seen in case.readings]
    text = case.form.text or encode_base64(first.parameters.signature)
    search = find_signed(readings, text=text, certificates=case.candidates, profile=case.profile, max_work=max_work)
    state = _state(value, search.signed, case)
    digest = explain_digest(_bare(value, case), case.message.body) if state is DigestState.FAILS and value else None
    if search.signed is not None:
        return Found(search, state, digest, None, search.signed.seen)
    return Found(search, state, digest, _find_hmac(case, text), readings[0])


def _state(value: str | None, signed: Signed | None, case: Case) -> DigestState:
    if value is None:
        return DigestState.ABSENT  # which is a fault of the headers where the dialect wants one
    if _fits(value, case):
        return DigestState.HOLDS
    of_lines = signed is not None and signed.draft.instead is None and signed.draft.prefix == signed.right.prefix
    signed_value = signed.draft.value(case.profile.digest_name) if signed is not None and of_lines else None
    replaced = signed_value is not None and signed_value != value and _fits(signed_value, case)
    return DigestState.REPLACED if replaced else DigestState.FAILS


def _bare(value: str, case: Case) -> str:
    """The digest of RFC 9530 without the colons around its hashes."""
    return value.replace("=:", "=").replace(":", "") if case.profile.format is Format.RFC9421 else value


def _fits(value: str, case: Case) -> bool:
    verify = verify_content_digest if case.profile.format is Format.RFC9421 else verify_digest
    try:
        verify(value, case.message.body or case.profile.empty_content)
    except (FormatError, SignatureRejected):
        return False
    return True


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
    if case.profile.format is not Format.RFC9421:
        yield from time_faults(parameters)
        doubled = doubled_fields(case.message)
        known = is_coverage_known(case, found)
        for one in coverage_faults(parameters, values, doubled, case.profile, has_body=bool(case.message.body)):
            if known or one.mistake.name not in _OF_COVERAGE:
                yield one
    if case.profile.format is Format.RFC9421 and ":" not in (sent := values.get(case.profile.digest_name, ":")):
        yield Fault(DIGEST_RFC_3230, f"{case.profile.digest_field}: {sent[:200]}")
    if found.digest is not None:
        told = tell_digest(found.digest, values[case.profile.digest_name], case.message.body)
        yield from (Fault(mistake, told) for mistake in found.digest.mistakes)
    if found.state is DigestState.HOLDS:
        yield from algorithm_of_digest_faults(values[case.profile.digest_name], case.profile)
    if parameters.key_id or case.profile.format is Format.CAVAGE:
        yield from key_id_faults(parameters.key_id, case.certificate, case.candidates, case.profile)
    signer = signed.certificate if signed else case.certificate
    yield from algorithm_faults(parameters.algorithm, signer, case.profile)
    if found.hmac is not None:
        yield signing_fault("hmac-with-public-key", f"HMAC with {found.hmac}")
    if signed is not None:
        yield from _faults_of_signature(case, signed, found.state)


def is_coverage_known(case: Case, found: Found) -> bool:
    """What the signature covers is said, or proven: else its reading is a guess, and nothing rests on that."""
    return found.search.signed is not None or len({frozenset(seen.parameters.headers) for seen in case.readings}) == 1


def doubled_fields(message: Message) -> list[str]:
    """The names of fields that stand more than once, in lower case."""
    counts = Counter(name.lower() for name, _ in message.headers)
    return [name for name, count in counts.items() if count > 1]


def _faults_of_signature(case: Case, signed: Signed, state: DigestState) -> Iterator[Fault]:
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
        replaced = state is DigestState.REPLACED and mistake.name == "value-digest-other"
        told = tell_step(before, after, show_values=case.show_values)
        yield Fault(DIGEST_REPLACED if replaced else mistake, told)
        before = after
