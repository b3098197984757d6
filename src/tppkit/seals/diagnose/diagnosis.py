"""The diagnosis of one request that does not verify: the parts of its seal one after the other, one mistake in each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.components import Origin
from tppkit.httpsig.digest import verify_content_digest, verify_digest
from tppkit.httpsig.signing_string import message_components
from tppkit.httpsig.wire import length_differences
from tppkit.message import Message
from tppkit.seals.diagnose.bodies import explain_digest, possible_bodies, signed_bodies
from tppkit.seals.diagnose.certificates import examine_certificate
from tppkit.seals.diagnose.examination import Examination, Refusal
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.mistakes import MISTAKES, Part
from tppkit.seals.diagnose.report import Cause, Diagnosis, DiagnosisOutcome, visible
from tppkit.seals.diagnose.search import MAX_WORK, Search, find_signed
from tppkit.seals.diagnose.signature_header import tidy_signature
from tppkit.seals.diagnose.signatures import findings_of_making, make_judges
from tppkit.seals.diagnose.strings import Seen, SigningString
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PSD2_V1
from tppkit.seals.verify import ReadSeal

_NO_CERTIFICATE = "Give the certificate that the seal should be by (--cert): the request has none that can be read."
_FORM_FIRST = "Correct this first: until the signature can be read, nothing is known of what was signed."
_GIVE_QWAC = "The request may be sealed with the QWAC's key: give the QWAC with --qwac to find out."
_GIVE_OTHERS = (
    "No key that was given fits, not even the QWAC's: give others with --cert, such as those from before a renewal."
)
_COMPARE = (
    "A header that is set again after signing (another X-Request-ID or Date on a retry) cannot be found by search: compare the "
    "signing string above with the one in the sender's log, byte for byte."
)
_OTHER_BODY = (
    "The body that arrived is not the one that was hashed, and no known mistake leads from one to the other: compare the bytes "
    "at the sender with those here, and look for a proxy that rewrites bodies."
)
# What the steps explain; any other refusal is a cause by itself.
_SEARCHED = ("signature.invalid", "digest.mismatch")


def diagnose_request(
    message: Message,
    *,
    certificates: Sequence[EidasCertificate] = (),
    profile: SealProfile = PSD2_V1,
    at: datetime | None = None,
    qwac: EidasCertificate | None = None,
    origin: Origin | None = None,
    max_work: int = MAX_WORK,
    show_values: bool = False,
) -> Diagnosis:
    """Explain why a sealed request does not verify, with proof.

        diagnosis = diagnose_request(message, certificates=[qseal, qwac])
        [cause.name for cause in diagnosis.causes]

    A cause is named only if the signature, the digest or the verifier proves it. Of a signing string and of a body one mistake is
    explained, not several together. Trust in the certificate is not judged. Nothing in the request raises.

    Args:
        message: the request, byte for byte as it was sent or received.
        certificates: whose keys may have signed it, besides the certificate that it carries; for a dialect that sends none, the seal
            certificate first.
        profile: the dialect it should be in.
        at: the time to judge its times at; if absent its age is not judged.
        qwac: the certificate of its connection, whose organisation the seal must have. Its key may have signed as well.
        origin: where it was sent, for a dialect that covers scheme or authority; by its Host, over https or http, if absent.
        max_work: a bound for the search, in units of about two microseconds.
        show_values: do not mask tokens, keys and card numbers, and show a body that was signed.
    """
    # 1. The certificate is as it should be, or repaired.
    # 2. The verifier accepts the request as it is now, or in another dialect.
    # 3. Its seal can be read, or can after its Signature header was rewritten.
    # 4. The search finds what was signed, by which key and how; for a dialect that signs the body, first a body with a known mistake.
    # 5. The digest fits the body, or a body that a known mistake makes of it.
    # 6. What neither explains is reported in the verifier's own words.
    examination = Examination(message, profile=profile, certificates=certificates, at=at, qwac=qwac, origin=origin)
    examine_certificate(examination)  # 1
    judged = examination.message
    refused = examination.judge(judged, profile)  # 2
    if refused is None:
        right = _right_string(examination.read(judged, profile), profile)
        outcome = DiagnosisOutcome.EXPLAINED if examination.findings else DiagnosisOutcome.VERIFIES
        return _report(examination, outcome, expected=shown_bytes(right, show_values=show_values))
    dialects = examination.other_dialects(refused)
    if dialects:
        return _in_other_dialect(examination, dialects)
    try:  # 3
        read, text = _read_seal(examination)
    except (FormatError, SignatureRejected) as e:
        return _without_seal(examination, e)
    if examination.certificate is None:
        return _without_seal(examination, None)
    right = _right_string(read, profile)
    if profile.covers_body and _examine_body(examination):
        return _report(examination, DiagnosisOutcome.EXPLAINED, expected=shown_bytes(right, show_values=show_values))
    search = _search(examination, read, right, text, max_work)  # 4
    body_fits, body_explained = _examine_digest(examination, search)  # 5
    _name_signed(examination, search, right)
    if refused.code == "signature.uncovered":  # 6
        examination.find("uncovered", refused.message)
    elif examination.message is judged and body_fits and refused.code not in _SEARCHED:
        examination.refusal = refused
    is_found = bool(examination.findings or examination.refusal)
    is_explained = search.string is not None and body_explained and is_found
    last = search.string or right
    digest_fits = body_fits and bool(message.values(profile.digest_field))
    return _report(
        examination,
        DiagnosisOutcome.EXPLAINED if is_explained else DiagnosisOutcome.UNEXPLAINED,
        expected=shown_bytes(right, show_values=show_values),
        signed=None if search.string is None else shown_bytes(last, show_values=show_values),
        made="" if search.made is None else str(search.made),
        recovered_hash="" if search.made is None else search.made.recovered.hex(),
        excluded=() if is_explained else tuple(_excluded(search, body_fits=digest_fits)),
        advice=() if is_explained else tuple(_advice(examination, search, refused, body_explained=body_explained)),
        tried=search.tried,
        first_difference=first_difference(right.text(), last.signed()) if last != right else None,
    )


def first_difference(one: bytes, other: bytes) -> int:
    """The first byte in which they differ."""
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


# ---- the steps


def _read_seal(examination: Examination) -> tuple[ReadSeal, str]:
    """The seal, and the signature as written.

    Raises:
        FormatError: the verifier's own refusal, as from `Examination.read`.
        SignatureRejected: the same.
    """
    message, profile = examination.message, examination.profile
    try:
        read = examination.read(message, profile)
    except FormatError:
        text = tidy_signature(examination) if profile.format is Format.CAVAGE else None
        if text is None:
            raise
        return examination.read(examination.message, profile), text
    return read, encode_base64(read.parameters.signature)


def _right_string(read: ReadSeal, profile: SealProfile) -> SigningString:
    return SigningString.from_bytes(read.signing_string, is_jws=profile.format is Format.JWS)


def _search(examination: Examination, read: ReadSeal, right: SigningString, text: str, max_work: int) -> Search:
    message, profile = examination.message, examination.profile
    digests = [profile.digest_value(body) for body in possible_bodies(message.body or profile.empty_content)]
    with suppress(FormatError):
        digests.insert(0, profile.digest_value(profile.hashed(message)))
    seen = Seen(message, message_components(message)[0], tuple(dict.fromkeys(digests)), profile.digest_name)
    named = read.parameters.algorithm
    judges = make_judges(text, examination.candidates, lambda owner: examination.due(owner, named=named))
    return find_signed(judges, right, seen, max_work=max_work)


def _examine_body(examination: Examination) -> bool:
    """Find the body that was signed in place of the one that arrived, if the payload of the signature is the body."""
    message = examination.message
    for name, body in signed_bodies(message.body):
        if examination.judge(message._replace(body=body), examination.profile) is None:
            place, sizes = first_difference(body, message.body), f"{len(body)} bytes, {len(message.body)} arrived"
            examination.find(name, f"the signature is over {sizes}; they differ from byte {place}")
            return True
    return False


def _examine_digest(examination: Examination, search: Search) -> tuple[bool, bool]:
    """Explain a digest that does not fit; return whether the one that was signed fits the body, and whether that is explained."""
    message, profile = examination.message, examination.profile
    value = message_components(message)[0].get(profile.digest_name)
    if value is None or _holds(value, examination) or _was_replaced(examination, search):
        return True, True
    is_content = profile.format is Format.RFC9421
    found = explain_digest(value.replace("=:", "=").replace(":", "") if is_content else value, message.body)
    if found is None:
        return False, False
    place = first_difference(found.hashed, message.body)
    evidence = f"the header is {value[:200]}"
    if found.hashed != message.body:
        sizes = f"{len(found.hashed)} bytes was sent, {len(message.body)} arrived"
        evidence = f"{found.algorithm} of {sizes}; they differ from byte {place}"
    examination.findings += [(name, evidence) for name in found.mistakes]
    return False, True


def _was_replaced(examination: Examination, search: Search) -> bool:
    """Another digest was signed than the one that arrived; only the signed one fits the body."""
    name = examination.profile.digest_name
    sent = message_components(examination.message)[0].get(name)
    signed = None if search.string is None else search.string.value(name)
    return sent is not None and signed is not None and not _holds(sent, examination) and _holds(signed, examination)


def _holds(value: str, examination: Examination) -> bool:
    verify = verify_content_digest if examination.profile.format is Format.RFC9421 else verify_digest
    try:
        verify(value, examination.profile.hashed(examination.message))
    except (FormatError, SignatureRejected):
        return False
    return True


def _name_signed(examination: Examination, search: Search, right: SigningString) -> None:
    """Name what the signature proves."""
    if search.string is None or search.judge is None or search.made is None:
        return
    owner, written = search.judge.certificate, search.judge.written
    if owner != examination.certificate:
        row = "key-of-qwac" if "web" in owner.qc.types else "key-of-other"
        examination.find(row, f"it verifies with the key of {owner.subject}, serial {owner.serial:X}")
    if written.name:
        examination.find(f"signature-{written.name}", f"read so, it has {len(written.raw)} bytes")
    if search.mistake is not None:
        is_replaced = search.mistake == "value-digest-other" and _was_replaced(examination, search)
        name = "digest-replaced" if is_replaced else search.mistake
        examination.find(name, _string_evidence(right, search.string))
    examination.findings += findings_of_making(search.made, search.judge.due)


def _string_evidence(right: SigningString, signed: SigningString) -> str:
    """What a mistake changed in what was signed, without secrets."""
    if signed.instead is not None:
        digest = hashlib.sha256(signed.instead).hexdigest()
        return f"signed: {len(signed.instead)} bytes that are no signing string, with the SHA-256 {digest}"
    place = first_difference(right.text(), signed.text())
    masked = [shown_bytes(string, show_values=False) or b"" for string in (signed, right)]
    shown = [visible(text[max(place - 12, 0) : place + 28]).replace("\n", "") for text in masked]
    return f"from byte {place}: signed “{shown[0]}”, right “{shown[1]}”"


# ---- the reports


def _report(examination: Examination, outcome: DiagnosisOutcome, **fields: Any) -> Diagnosis:
    """The report of an examination, with one cause for each mistake and all the evidence for it; then the refusal."""
    evidence: dict[str, dict[str, None]] = {}
    for name, text in examination.findings:
        evidence.setdefault(name, {})[text] = None
    rows = {name: MISTAKES[name] for name in evidence}
    causes = [Cause(name, row.part, row.cause, tuple(evidence[name]), row.fix) for name, row in rows.items()]
    if (one := examination.refusal) is not None:
        proof = ("the verifier rejects the request for this",)
        causes.append(Cause(one.code, Part.REFUSED, f"{one.message}.", proof, one.hint))
    unusable = [
        f"the public key of {one.subject}, which was given, cannot be read; it was not tried"
        for one in examination.unusable
    ]
    notes = (*length_differences(examination.given), *unusable)
    return Diagnosis(outcome, examination.profile.name, tuple(causes), notes=notes, **fields)


def _in_other_dialect(examination: Examination, dialects: Sequence[SealProfile]) -> Diagnosis:
    names = ", ".join(row.name for row in dialects)
    refused = examination.judge(examination.given, examination.profile)
    examination.findings = []
    examination.find("other-dialect", f"it verifies by {names}")
    examination.find("other-dialect", f"by {examination.profile.name}: {refused}")
    return _report(examination, DiagnosisOutcome.EXPLAINED)


def _without_seal(examination: Examination, refused: Refusal | None) -> Diagnosis:
    """The seal cannot be read, or there is no certificate."""
    is_missing = not examination.message.values(examination.profile.carrier)
    if is_missing and refused is not None:
        examination.find("signature-missing", refused.message)
    else:
        examination.refusal = refused
    steps = [_NO_CERTIFICATE] if examination.certificate is None else []
    steps += [] if is_missing or refused is None else [_FORM_FIRST]
    return _report(
        examination, DiagnosisOutcome.EXPLAINED if is_missing else DiagnosisOutcome.UNEXPLAINED, advice=tuple(steps)
    )


def _excluded(search: Search, *, body_fits: bool) -> Iterator[str]:
    """What was examined and is not the cause."""
    if body_fits:
        yield "the body: its digest is the one in the digest header"
    if search.string is not None:
        yield "the signature: what it is over and whose key made it is known"
        return
    if search.judge is not None:
        yield f"the key: the signature was made with that of {search.judge.certificate.subject}"
    if search.tried:
        bound = "all were tried" if search.is_complete else "not all were tried: the bound on work was reached"
        yield f"each known mistake in the signing string by itself ({bound}): {search.tried} strings, none fits"


def _advice(examination: Examination, search: Search, refused: Refusal, *, body_explained: bool) -> Iterator[str]:
    """What to try next."""
    if search.judge is None:
        is_qwac_known = any("web" in one.qc.types for one in examination.candidates)
        yield _GIVE_OTHERS if is_qwac_known else _GIVE_QWAC
    yield f"The verifier reports: {refused.message} [{refused.code}]. {refused.hint}"
    if not body_explained:
        yield _OTHER_BODY
    if search.string is not None:
        return
    if not search.tried:
        yield "The signature cannot be by a key that was given: its length or its encoding is another."
    elif search.made is not None:
        yield f"The key is right, but another text was signed, with this {search.made.hash}: {search.made.recovered.hex()}"
    yield _COMPARE
