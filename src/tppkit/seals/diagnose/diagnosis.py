"""The diagnosis of one request that does not verify: each step measured against the verifier's own refusal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from tppkit._encoding import decode_base64url, encode_base64, parse_json
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.components import Origin
from tppkit.httpsig.jws_header import MAX_JWS_LENGTH, check_jws_header
from tppkit.httpsig.message import Message, message_components
from tppkit.seals.diagnose.certificates import examine_certificate
from tppkit.seals.diagnose.digests import examine_digest, possible_bodies
from tppkit.seals.diagnose.evidence import (
    FORM_FIRST,
    NO_CERTIFICATE,
    accepted,
    make_diagnosis,
    searched,
    step_evidence,
)
from tppkit.seals.diagnose.examination import Examination
from tppkit.seals.diagnose.mistakes import MISTAKES, Finding
from tppkit.seals.diagnose.refusals import Refusal, Verifier
from tppkit.seals.diagnose.report import Diagnosis, Outcome
from tppkit.seals.diagnose.search import MAX_WORK, Search
from tppkit.seals.diagnose.signature_header import tidy_signature
from tppkit.seals.diagnose.signatures import findings_of_making, make_judges
from tppkit.seals.diagnose.strings import Seen, SigningString
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PSD2_V1
from tppkit.seals.verify import ReadSeal


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

    A cause is named only if the signature, the digest or the verifier proves it. Trust in the certificate is not judged. Nothing in
    the request raises.

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
    # 4. The search finds what was signed, by which key and how.
    # 5. The digest fits the body, or a body that a known mistake makes of it.
    # 6. What the verifier rejects in the rest is reported in its own words.
    examination = Examination(message, verifier=Verifier(profile, at, qwac, origin), certificates=certificates)
    examine_certificate(examination)  # 1
    refused = examination.verifier.refusal(examination.message, examination.certificate)  # 2
    if refused is None:
        return accepted(examination, show_values=show_values)
    dialects = examination.verifier.other_dialects(message, examination.certificate, refused=refused)
    if dialects:
        return _in_other_dialect(examination, dialects)
    try:  # 3
        read, text = _read_seal(examination)
    except (FormatError, SignatureRejected) as e:
        return _without_seal(examination, e)
    if examination.certificate is None:
        return _without_seal(examination, None)
    right = SigningString.from_bytes(read.signing_string, is_jws=profile.format is Format.JWS)
    _search(examination, read, right, text, max_work)  # 4
    was_replaced = examine_digest(examination)  # 5
    _name_signed(examination, was_replaced=was_replaced)
    if examination.signed is not None or examination.is_coverage_known:
        _examine_rest(examination)  # 6
    return searched(examination, right, refused, show_values=show_values)


def _read_seal(examination: Examination) -> tuple[ReadSeal, str]:
    """The seal, and the signature as written.

    Raises:
        FormatError: the verifier's own refusal, as from `Verifier.read`.
        SignatureRejected: the same.
    """
    try:
        read = examination.verifier.read(examination.message)
    except FormatError:
        text = tidy_signature(examination) if examination.profile.format is Format.CAVAGE else None
        if text is None:
            raise
        return examination.verifier.read(examination.message), text
    return read, encode_base64(read.parameters.signature)


def _search(examination: Examination, read: ReadSeal, right: SigningString, text: str, max_work: int) -> None:
    message, profile = examination.message, examination.profile
    bodies = possible_bodies(message.body or profile.empty_content)
    digests = tuple(dict.fromkeys([profile.digest_of(body) for body in bodies]))
    sent_names = {name.lower(): name for name, _ in message.headers}
    seen = Seen(message, message_components(message)[0], sent_names, digests, profile.digest_name)
    named = read.parameters.algorithm
    judges = make_judges(text, examination.candidates, lambda owner: examination.due(owner, named=named))
    examination.search = Search(judges, max_work=max_work)
    examination.signed = examination.search.find(right, seen)


def _name_signed(examination: Examination, *, was_replaced: bool) -> None:
    """Name what the signature proves."""
    signed = examination.signed
    if signed is None:
        return
    owner, written = signed.judge.certificate, signed.judge.written
    if owner != examination.certificate:
        row = "key-of-qwac" if "web" in owner.qc.types else "key-of-other"
        examination.find(row, f"it verifies with the key of {owner.subject}, serial {owner.serial:X}")
    if written.name:
        examination.find(f"signature-{written.name}", f"read so, it has {len(written.raw)} bytes")
    for mistake, before, after in zip(signed.mistakes, signed.steps, signed.steps[1:], strict=False):
        is_replaced = was_replaced and mistake.name == "value-digest-other"
        row_of_step = MISTAKES["digest-replaced"] if is_replaced else mistake
        examination.findings.append(Finding(row_of_step, step_evidence(before, after)))
    examination.findings += findings_of_making(signed.made, signed.judge.due)


def _examine_rest(examination: Examination) -> None:
    refused = examination.verifier.refusal(examination.message, examination.certificate, any_signature=True)
    if refused is not None and refused.code == "signature.uncovered":
        examination.find("uncovered", refused.message)
    elif refused is not None:
        examination.refusals.append(refused)


def _in_other_dialect(examination: Examination, dialects: Sequence[SealProfile]) -> Diagnosis:
    names = ", ".join(row.name for row in dialects)
    refused = examination.verifier.refusal(examination.given, examination.certificate)
    examination.findings = []
    examination.find("other-dialect", f"it verifies by {names}")
    examination.find("other-dialect", f"by {examination.profile.name}: {refused}")
    return make_diagnosis(examination, Outcome.EXPLAINED)


def _without_seal(examination: Examination, refused: Refusal | None) -> Diagnosis:
    """The seal cannot be read, or there is no certificate: report the parser's findings."""
    message, profile = examination.message, examination.profile
    is_missing = not message.values(profile.carrier)
    if is_missing and refused is not None:
        examination.find("signature-missing", refused.message)
    elif refused is not None:
        examination.refusals += _jws_refusals(message, profile) or [refused]
    steps = [NO_CERTIFICATE] if examination.certificate is None else []
    steps += [] if is_missing or refused is None else [FORM_FIRST]
    return make_diagnosis(examination, Outcome.EXPLAINED if is_missing else Outcome.UNEXPLAINED, advice=tuple(steps))


def _jws_refusals(message: Message, profile: SealProfile) -> list[Refusal]:
    """Everything that the parser of JSON Web Signatures rejects in a protected header, if that can be read."""
    value = next(iter(message.values(profile.carrier)), "").strip(" \t")
    with suppress(FormatError):
        raw = decode_base64url(value[:MAX_JWS_LENGTH].partition(".")[0], what="the protected header")
        header = parse_json(raw, what="the protected header", max_bytes=MAX_JWS_LENGTH, max_depth=4)
        if profile.format is Format.JWS and isinstance(header, dict):
            return [error for _, error in check_jws_header(header)]
    return []
