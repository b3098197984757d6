"""Why a sealed request does not verify: every part looked at by itself, and a cause named only where it is proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from tppkit.seals.diagnose.form import Fault, Form, components_of, read_form
from tppkit.seals.diagnose.judging import (
    Refusal,
    algorithm_faults,
    believing_policy,
    coverage_faults,
    find_certificate,
    key_id_faults,
    meant_algorithm,
    other_dialects,
    refusal,
)
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.mending import mend_request
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome
from tppkit.seals.diagnose.search import MAX_WORK, Search, Signed, find_signed
from tppkit.seals.diagnose.signing import faults_of_making, hmac_secrets, is_hmac, signing_fault
from tppkit.seals.diagnose.strings import signed_bytes
from tppkit.seals.diagnose.telling import (
    causes_of,
    dialect_cause,
    first_difference,
    refused_cause,
    tell_advice,
    tell_digest,
    tell_excluded,
    tell_making,
    tell_refusal,
    tell_step,
)
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PSD2_V1
from tppkit.seals.read import read_seal

_TIMES = ("signature.created", "signature.expired")


def diagnose_request(
    message: Message,
    *,
    certificates: Sequence[EidasCertificate] = (),
    profile: SealProfile = PSD2_V1,
    at: datetime | None = None,
    max_work: int = MAX_WORK,
    show_values: bool = False,
) -> Diagnosis:
    """Say why a sealed request does not verify, and prove it.

    A cause is named only when the signature, the digest or the headers prove it; where RSA lets the signed hash be recovered
    from the signature, the search is for that hash. Trust in the certificate is not judged. Nothing of the content raises.

    Args:
        message: the request, byte for byte as it was sent or received.
        certificates: whose keys may have signed it, besides the certificate that it carries: the QWAC, those before and
            after a renewal; for a dialect that sends none, the seal certificate first.
        profile: the dialect it should be in.
        at: judge its times at this time; when absent its age is not judged.
        max_work: a bound for the search, in units of about two microseconds.
        show_values: do not mask tokens, keys and card numbers, and show a body where it was signed.
    """
    # 1. The certificate, and the signature's form.
    # 2. Whether the verifier takes it as it is, or in another dialect.
    # 3. What was signed, by whom and how; coverage, keyId, algorithm and digest, each by itself.
    # 4. With all of that mended, what the verifier still refuses.
    # 5. It is explained when every part that fails has its proven cause.
    sent, faults = find_certificate(message, profile=profile)  # 1
    candidates = tuple(dict.fromkeys((*([sent] if sent else []), *certificates)))
    form = read_form(message, profile=profile) if profile.format is Format.CAVAGE else Form()
    if not candidates:
        return _without_parameters(profile, (*faults, *form.faults), has_certificate=False)
    certificate = candidates[0]
    refused = refusal(message, certificate=certificate, profile=profile, at=at)  # 2
    not_seal = tuple(_not_seal(certificate))
    readings = tuple(_readings(message, form, profile))
    if refused is None and not not_seal:
        right = shown_bytes(right_draft(readings[0]), show_values=show_values) if readings else None
        return Diagnosis(Outcome.VERIFIES, profile.name, expected=right)
    dialects = other_dialects(message, certificate=certificate, profile=profile, at=at) if refused else ()
    if refused and dialects and not not_seal:
        return _dialect(message, readings, profile, dialects, refused, certificate, show_values=show_values)
    if not readings:
        return _without_parameters(profile, (*faults, *form.faults), has_certificate=True, refused=refused)
    case = _Case(message, profile, readings, form, candidates, certificate, at, show_values)
    found = _examine(case, max_work)
    causes = causes_of((*faults, *form.faults, *_faults(case, found), *not_seal))  # 3
    left = tuple(_left(case, found, causes))  # 4
    return _report(case, found, (*causes, *map(refused_cause, left)), refused)  # 5


@dataclass(frozen=True, slots=True)
class _Case:
    """One request that does not verify, with what it is judged by."""

    message: Message
    profile: SealProfile
    readings: tuple[Seen, ...]
    form: Form
    candidates: tuple[EidasCertificate, ...]
    certificate: EidasCertificate
    at: datetime | None
    show_values: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found in it: `digest` is why its digest does not fit; `hmac` the hash where the signature is one with a public key."""

    search: Search
    digest_holds: bool
    digest: DigestFinding | None
    hmac: str | None
    seen: Seen

    @property
    def digest_explained(self) -> bool:
        return self.digest_holds or (self.digest is not None and not self.digest.left)


def _readings(message: Message, form: Form, profile: SealProfile) -> Iterator[Seen]:
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


def _examine(case: _Case, max_work: int) -> _Found:
    holds, digest = _judge_digest(case)
    label = case.readings[0].values.get("digest", "SHA-256").partition("=")[0]
    digests = possible_digests(case.message.body, algorithm=label)
    readings = [seen._replace(digests=digests) for seen in case.readings]
    text = case.form.text or encode_base64(case.readings[0].parameters.signature)
    search = find_signed(readings, text=text, certificates=case.candidates, max_work=max_work)
    if search.signed is not None:
        return _Found(search, holds, digest, None, search.signed.seen)
    return _Found(search, holds, digest, _find_hmac(case, text), readings[0])


def _judge_digest(case: _Case) -> tuple[bool, DigestFinding | None]:
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


def _find_hmac(case: _Case, text: str) -> str | None:
    data = right_draft(case.readings[0]).text()
    for certificate in case.candidates:
        for secret in hmac_secrets(certificate.public_key, certificate.der):
            for written in decode_any(text):
                name = is_hmac(written.raw, data, secret)
                if name:
                    return name
    return None


def _faults(case: _Case, found: _Found) -> Iterator[Fault]:
    """Every mistake that was proven, in the order of verification."""
    parameters, values, signed = found.seen.parameters, found.seen.values, found.search.signed
    if case.profile.format is Format.CAVAGE:
        doubled = _doubled(case.message)
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


def _doubled(message: Message) -> list[str]:
    counts = Counter(name.lower() for name, _ in message.headers)
    return [name for name, count in counts.items() if count > 1]


def _faults_of_signature(case: _Case, signed: Signed) -> Iterator[Fault]:
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


def _left(case: _Case, found: _Found, causes: Sequence[Cause]) -> Iterator[Refusal]:
    """What the verifier refuses in the request once every cause is mended, the signature left out of account."""
    message = case.message
    if case.profile.format is Format.CAVAGE:
        message = mend_request(
            message,
            parameters=found.seen.parameters,
            certificate=case.certificate,
            profile=case.profile,
            mistakes=frozenset(cause.name for cause in causes),
        )
    for at in dict.fromkeys((case.at, None)):
        refused = refusal(message, certificate=case.certificate, profile=case.profile, at=at, any_signature=True)
        if refused is None:
            return
        if refused.code in _TIMES:
            if at is not None:
                yield refused
            continue
        if not _is_told(refused.code, found, causes):
            yield refused
        return


def _is_told(code: str, found: _Found, causes: Sequence[Cause]) -> bool:
    """A refusal that cannot be mended away but stands among the causes already, or among what is not explained."""
    family = {
        "digest": ("digest-", "body-", "json-"),
        "key-id": ("key-id-",),
        "key": ("key-",),
        "certificate": ("key-", "cert"),
    }
    if code.startswith(("digest.", "base64.")) and not found.digest_holds:
        return found.digest is None or bool(found.digest.left or found.digest.mistakes)
    beginnings = family.get(code.partition(".")[0], ())
    if code == "signature.algorithm":
        beginnings = ("algorithm-", "key-unusable")
    return any(cause.name.startswith(beginnings) for cause in causes) if beginnings else False


def _report(case: _Case, found: _Found, causes: tuple[Cause, ...], refused: Refusal | None) -> Diagnosis:
    search = found.search
    signed = search.signed
    proven = (signed is not None or found.hmac is not None) and found.digest_explained
    explained = proven and bool(causes)
    made = signed.made if signed else search.made
    right = signed.right if signed else right_draft(found.seen)
    text = case.form.text or encode_base64(found.seen.parameters.signature)
    advice = (
        *([tell_refusal(refused)] if refused else []),
        *tell_advice(search, text, case.candidates, found.digest, found.digest_holds),
    )
    return Diagnosis(
        Outcome.EXPLAINED if explained else Outcome.UNEXPLAINED,
        case.profile.name,
        causes,
        expected=shown_bytes(right, show_values=case.show_values),
        signed=shown_bytes(signed.draft, show_values=case.show_values) if signed else None,
        made=tell_making(made),
        recovered_hash=made.recovered.hex() if made and made.hash and made.scheme.startswith("PKCS#1") else "",
        excluded=() if explained else tuple(tell_excluded(search, case.candidates, digest_holds=found.digest_holds)),
        advice=() if explained else advice,
        tried=search.tried,
        first_difference=first_difference(right.text(), signed_bytes(signed.draft))
        if signed and signed.mistakes
        else None,
    )


def _without_parameters(
    profile: SealProfile, faults: Sequence[Fault], *, has_certificate: bool, refused: Refusal | None = None
) -> Diagnosis:
    """Nothing can be said of what was signed: no certificate, or a signature whose parameters cannot be read."""
    missing = any(one.mistake.name == "signature-missing" for one in faults)
    advice = []
    if refused is not None and not missing:
        advice.append(tell_refusal(refused))
    if not has_certificate:
        advice.append("Give the certificate that the seal should be by (--cert): the request carries none.")
    elif not missing:
        advice.append(
            "Mend the form of the signature's header first; until it can be read, nothing can be said of what was signed."
        )
    outcome = Outcome.EXPLAINED if missing else Outcome.UNEXPLAINED
    return Diagnosis(outcome, profile.name, causes_of(faults), advice=tuple(advice))


def _not_seal(certificate: EidasCertificate) -> Iterator[Fault]:
    types = certificate.qc.types
    if "web" in types and "eseal" not in types:
        yield signing_fault("certificate-not-seal", f"{certificate.subject} is for websites (QWAC)")


def _dialect(
    message: Message,
    readings: Sequence[Seen],
    profile: SealProfile,
    dialects: Sequence[SealProfile],
    refused: Refusal,
    certificate: EidasCertificate,
    *,
    show_values: bool,
) -> Diagnosis:
    """It verifies in another dialect; what differs from the one that was asked for is the mend."""
    other = dialects[0]
    if not readings or other.format is not profile.format:
        return Diagnosis(Outcome.EXPLAINED, profile.name, (dialect_cause(dialects, profile, refused, ()),))
    seen = readings[0]
    differing = (
        *coverage_faults(seen.parameters, seen.values, _doubled(message), profile, has_body=bool(message.body)),
        *key_id_faults(seen.parameters.key_id, certificate, (), profile),
        *algorithm_faults(seen.parameters.algorithm, certificate, profile),
    )
    right = shown_bytes(right_draft(seen), show_values=show_values)
    cause = dialect_cause(dialects, profile, refused, differing)
    return Diagnosis(Outcome.EXPLAINED, profile.name, (cause,), expected=right, signed=right)
