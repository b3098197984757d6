"""Why a sealed request does not verify: every part looked at by itself, and a cause named only where it is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError
from tppkit.httpsig.components import Origin
from tppkit.httpsig.message import Message
from tppkit.httpsig.wire import length_differences
from tppkit.seals.diagnose.addresses import as_should_be_sent, origins_of
from tppkit.seals.diagnose.draft import Seen, right_draft
from tppkit.seals.diagnose.examining import Case, DigestState, Found, examine, faults_in, readings_of
from tppkit.seals.diagnose.form import Fault, Form
from tppkit.seals.diagnose.judging import Given, Refusal, other_dialects, refusal
from tppkit.seals.diagnose.jws_form import tell_part
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.reading import read_signature
from tppkit.seals.diagnose.remaining import still_refused
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome
from tppkit.seals.diagnose.search import MAX_WORK
from tppkit.seals.diagnose.sent_certificate import SentCertificates, find_certificates
from tppkit.seals.diagnose.signing import signing_fault
from tppkit.seals.diagnose.strings import signed_bytes
from tppkit.seals.diagnose.telling import (
    causes_of,
    dialect_cause,
    first_difference,
    refused_cause,
    tell_advice,
    tell_excluded,
    tell_key,
    tell_making,
    tell_refusal,
)
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PSD2_V1

# Mistakes beside which nothing else has to be explained: there is nothing that a key could have signed.
_NOTHING_SIGNED = ("signature-missing", "jws-signature-alone")


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
    """Say why a sealed request does not verify, and prove it.

    A cause is named only when the signature, the digest or the headers prove it; where RSA lets the signed hash be recovered
    from the signature, the search is for that hash. Trust in the certificate is not judged. Nothing of the content raises.

    Args:
        message: the request, byte for byte as it was sent or received.
        certificates: whose keys may have signed it, besides the certificate that it carries: the QWAC, those before and
            after a renewal; for a dialect that sends none, the seal certificate first.
        profile: the dialect it should be in.
        at: judge its times at this time; when absent its age is not judged.
        qwac: the certificate of its connection, whose organisation the seal must have; not compared when absent. Its key may
            have signed as well.
        origin: where it was sent, for a dialect that covers scheme or authority; by its Host, over https or http, when absent.
        max_work: a bound for the search, in units of about two microseconds.
        show_values: do not mask tokens, keys and card numbers, and show a body where it was signed.
    """
    known = dict.fromkeys((*certificates, *([qwac] if qwac is not None else [])))
    usable = tuple([one for one in known if _has_key(one)])
    given = Given(at, qwac, origin)
    form = read_signature(message, profile=profile)
    key_ids = dict.fromkeys(one.key_id for one in form.readings)
    sent = find_certificates(message, profile=profile, key_ids=key_ids, unread=bool(form.unread), jws=form.jws)
    diagnosis = _diagnose(message, form, sent, usable, profile, given, max_work, show_values=show_values)
    not_seen = () if diagnosis.outcome is Outcome.VERIFIES else sent.notes
    unusable = [
        f"the public key of {one.subject}, which was given, cannot be read: it was not tried"
        for one in known
        if one not in usable
    ]
    return replace(diagnosis, notes=(*length_differences(message), *not_seen, *unusable))


def _has_key(certificate: EidasCertificate) -> bool:
    try:
        return certificate.public_key is not None
    except FormatError:
        return False


def _diagnose(
    message: Message,
    form: Form,
    sent: SentCertificates,
    certificates: Sequence[EidasCertificate],
    profile: SealProfile,
    given: Given,
    max_work: int,
    *,
    show_values: bool,
) -> Diagnosis:
    # 1. The signature's form, and the certificate, as they were read.
    # 2. Whether the verifier takes it as it is, or in another dialect; from here on by the start line as it should be.
    # 3. What was signed, by whom and how; coverage, keyId, algorithm and digest, each by itself.
    # 4. With all of that mended, what the verifier still refuses.
    # 5. It is explained when every part that fails has its proven cause.
    candidates, faults = _candidates(sent, certificates, profile), sent.faults  # 1
    form = tell_part(form, candidates)
    if not candidates:
        return _without_parameters(profile, form, (*faults, *form.faults), has_certificate=False)
    certificate = candidates[0]
    given, refused = _judge(message, certificate, profile, given)  # 2
    start: tuple[Fault, ...] = ()
    if refused is not None:
        message, start = as_should_be_sent(message)
        refused = _judge(message, certificate, profile, given)[1] if start else refused
    not_seal = tuple(_not_seal(certificate))
    readings = tuple(readings_of(message, form, profile, given.origin))
    if refused is None and not not_seal:
        right = shown_bytes(right_draft(readings[0]), show_values=show_values) if readings else None
        outcome = Outcome.EXPLAINED if start else Outcome.VERIFIES
        return Diagnosis(outcome, profile.name, causes_of(start), expected=right)
    dialects = _dialects(message, certificate, profile, readings, refused, given)
    faults = (*faults, *form.faults, *start)
    case = Case(message, profile, readings, form, candidates, certificate, given, show_values)
    if refused and dialects and not not_seal and not start:
        return _dialect(case, dialects, refused, faults, max_work)
    if not readings:
        return _without_parameters(profile, form, faults, has_certificate=True, refused=refused)
    found = examine(case, max_work)
    causes = causes_of((*faults, *faults_in(case, found), *not_seal))  # 3
    left = tuple(still_refused(case, found, causes))  # 4
    return _report(case, found, (*causes, *map(refused_cause, left)), refused)  # 5


def _judge(
    message: Message, certificate: EidasCertificate, profile: SealProfile, given: Given
) -> tuple[Given, Refusal | None]:
    """Why the verifier refuses it; an origin that was not given is the one by which it does not, or else the usual one."""
    origins = [given.origin] if given.origin or profile.format is not Format.RFC9421 else [*origins_of(message), None]
    refusals = []
    for origin in origins:
        judged = given._replace(origin=origin)
        refused = refusal(message, certificate=certificate, profile=profile, given=judged)
        refusals.append((judged, refused))
        if refused is None:
            return judged, None
    return refusals[0]


def _dialects(
    message: Message,
    certificate: EidasCertificate,
    profile: SealProfile,
    readings: Sequence[Seen],
    refused: Refusal | None,
    given: Given,
) -> tuple[SealProfile, ...]:
    if refused is None:
        return ()
    key_id = readings[0].parameters.key_id if readings else ""
    return other_dialects(
        message, certificate=certificate, key_id=key_id, profile=profile, refused=refused, given=given
    )


def _report(case: Case, found: Found, causes: tuple[Cause, ...], refused: Refusal | None) -> Diagnosis:
    search = found.search
    signed = search.signed
    proven = (signed is not None or found.hmac is not None) and found.digest_explained
    explained = proven and bool(causes)
    holds = found.state is DigestState.HOLDS
    made = signed.made if signed else search.made
    right = signed.right if signed else right_draft(found.seen)
    text = case.form.text or encode_base64(found.seen.parameters.signature)
    advice = (
        *tell_key(search, case.candidates),
        *([tell_refusal(refused)] if refused and not _is_explained(refused, causes) else []),
        *tell_advice(search, text, case.candidates, found.digest, digest_fails=found.state is DigestState.FAILS),
    )
    return Diagnosis(
        Outcome.EXPLAINED if explained else Outcome.UNEXPLAINED,
        case.profile.name,
        causes,
        expected=shown_bytes(right, show_values=case.show_values),
        signed=shown_bytes(signed.draft, show_values=case.show_values) if signed else None,
        made=tell_making(made),
        recovered_hash=made.recovered.hex() if made and made.hash and made.scheme.startswith("PKCS#1") else "",
        excluded=() if explained else tuple(tell_excluded(search, case.candidates, digest_holds=holds)),
        advice=() if explained else advice,
        tried=search.tried,
        first_difference=first_difference(right.text(), signed_bytes(signed.draft))
        if signed and signed.mistakes
        else None,
    )


def _is_explained(refused: Refusal, causes: Sequence[Cause]) -> bool:
    """Whether the verifier rejects the form of the certificate, and a cause explains that already."""
    of_certificate = refused.code.startswith(("certificate.", "base64.", "der."))
    return of_certificate and any(cause.name == "certificate-form" for cause in causes)


def _without_parameters(
    profile: SealProfile,
    form: Form,
    faults: Sequence[Fault],
    *,
    has_certificate: bool,
    refused: Refusal | None = None,
) -> Diagnosis:
    """Nothing can be said of what was signed: no certificate, or a signature whose parameters cannot be read."""
    names = {one.mistake.name for one in faults}
    missing = not names.isdisjoint(_NOTHING_SIGNED)
    advice = []
    if refused is not None and not missing:
        advice.append(tell_refusal(refused))
    advice += [f"{name} holds what may be a signature, in no form that is read there." for name in form.unread]
    if not has_certificate:
        advice.append(
            "Give the certificate that the seal should be by (--cert): the request has none that is known to be that."
        )
    elif "signature-format" in names:
        advice.append(
            "Judge the request by the dialect that it was sealed in (--profile), to see what is wrong by that."
        )
    elif not missing:
        advice.append(
            "Mend the form of the signature's header first; until it can be read, nothing can be said of what was signed."
        )
    outcome = Outcome.EXPLAINED if missing else Outcome.UNEXPLAINED
    return Diagnosis(outcome, profile.name, causes_of(faults), advice=tuple(advice))


def _candidates(
    sent: SentCertificates, certificates: Sequence[EidasCertificate], profile: SealProfile
) -> tuple[EidasCertificate, ...]:
    """The certificates whose keys may have signed, each once, the one first that the seal should be by; none where that is not known."""
    carries_it = profile.sends_x5c or profile.certificate_header is not None
    seal = () if sent.seal is None else (sent.seal,)
    first = (*seal, *certificates) if carries_it else (*certificates, *seal)
    return tuple(dict.fromkeys((*first, *sent.others))) if first else ()


def _not_seal(certificate: EidasCertificate) -> Iterator[Fault]:
    types = certificate.qc.types
    if "web" in types and "eseal" not in types:
        yield signing_fault("certificate-not-seal", f"{certificate.subject} is for websites (QWAC)")


def _dialect(
    case: Case, dialects: Sequence[SealProfile], refused: Refusal, faults: Sequence[Fault], max_work: int
) -> Diagnosis:
    """It verifies in another dialect; what differs from the one that was asked for is the mend."""
    profile = case.profile
    if not case.readings or dialects[0].format is not profile.format:
        return Diagnosis(Outcome.EXPLAINED, profile.name, (dialect_cause(dialects, profile, refused, ()),))
    found = examine(case, max_work)
    differing = causes_of((*faults, *faults_in(case, found)))
    left = map(refused_cause, still_refused(case, found, differing))
    right = shown_bytes(right_draft(found.seen), show_values=case.show_values)
    cause = dialect_cause(dialects, profile, refused, (*differing, *left))
    return Diagnosis(Outcome.EXPLAINED, profile.name, (cause,), expected=right, signed=right)
