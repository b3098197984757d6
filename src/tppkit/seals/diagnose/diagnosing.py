"""Why a sealed request does not verify: every part looked at by itself, and a cause named only where it is proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.digest import verify_digest
from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.digests import DigestFinding, explain_digest, possible_digests
from tppkit.seals.diagnose.draft import Seen, right_draft
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.form import Fault, Form, components_of, read_form
from tppkit.seals.diagnose.judging import (
    DIALECT,
    Refusal,
    algorithm_faults,
    coverage_faults,
    find_certificate,
    key_id_faults,
    meant_algorithm,
    other_dialects,
    refusal,
)
from tppkit.seals.diagnose.mistake import Part
from tppkit.seals.diagnose.recover import Made
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome, visible
from tppkit.seals.diagnose.search import MAX_WORK, MISTAKES, Search, Signed, find_signed
from tppkit.seals.diagnose.signing import faults_of_making, hmac_secrets, is_hmac, signing_fault
from tppkit.seals.diagnose.strings import signed_bytes
from tppkit.seals.profile import EmptyBody, Format, SealProfile
from tppkit.seals.profiles import PSD2_V1

_MORE_CERTIFICATES = "Give further certificates with --cert, for example the QWAC and those from before a renewal."
_OTHER_BODY = (
    "The body that arrived is not the one that was hashed, and no known change leads from one to the other: compare the bytes "
    "at the sender with those here, and look for a proxy that rewrites bodies."
)


def diagnose_request(
    message: Message,
    *,
    certificates: Sequence[EidasCertificate] = (),
    profile: SealProfile = PSD2_V1,
    at: datetime | None = None,
    max_work: int = MAX_WORK,
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
    """
    # 1. The certificate, and the signature's form.
    # 2. Whether the verifier takes it as it is, or in another dialect.
    # 3. Coverage, keyId, algorithm and digest, each by itself.
    # 4. What was signed, by whom and how.
    # 5. It is explained when every part that fails has its proven cause.
    sent, faults = find_certificate(message, profile=profile)  # 1
    candidates = tuple(dict.fromkeys((*([sent] if sent else []), *certificates)))
    form = read_form(message, profile=profile)
    if not candidates:
        return _without_parameters(profile, (*faults, *form.faults), has_certificate=False)
    certificate = candidates[0]
    refused = refusal(message, certificate=certificate, profile=profile, at=at)  # 2
    not_seal = tuple(_not_seal(certificate))
    if refused is None and not not_seal:
        return Diagnosis(Outcome.VERIFIES, profile.name, expected=_expected(message, form, profile))
    dialects = other_dialects(message, certificate=certificate, profile=profile, at=at) if refused else ()
    if refused and dialects and not not_seal:
        return _dialect(message, form, profile, dialects, refused)
    if refused and profile.format is not Format.CAVAGE:
        return _other_format(profile, refused)
    if not form.readings:
        return _without_parameters(profile, (*faults, *form.faults), has_certificate=True)
    case = _Case(message, profile, form, candidates)
    found = case.examine(max_work)
    causes = (*faults, *form.faults, *case.faults(found, sent), *not_seal)
    return case.report(found, causes, refused)


def _without_parameters(profile: SealProfile, faults: Sequence[Fault], *, has_certificate: bool) -> Diagnosis:
    advice = (
        []
        if has_certificate
        else ["Give the certificate that the seal should be by (--cert): the request carries none."]
    )
    missing = any(one.mistake.name == "signature-missing" for one in faults)
    outcome = Outcome.EXPLAINED if missing else Outcome.UNEXPLAINED
    if not missing and has_certificate:
        advice.append(
            "Mend the form of the signature's header first; until it can be read, nothing can be said of what was signed."
        )
    return Diagnosis(outcome, profile.name, _causes(faults), advice=tuple(advice))


def _not_seal(certificate: EidasCertificate) -> Iterator[Fault]:
    types = certificate.qc.types
    if "web" in types and "eseal" not in types:
        yield signing_fault("certificate-not-seal", f"{certificate.subject} is for websites (QWAC)")


def _other_format(profile: SealProfile, refused: Refusal) -> Diagnosis:
    """What the verifier says; the search is for mistakes with draft-cavage only."""
    advice = (
        f"The verifier says: {refused.message} [{refused.code}]. {refused.hint}.",
        f"Known mistakes are searched for in seals of {Format.CAVAGE.value}; the profile {profile.name} has {profile.format.value}.",
    )
    return Diagnosis(Outcome.UNEXPLAINED, profile.name, advice=advice)


def _expected(message: Message, form: Form, profile: SealProfile) -> bytes | None:
    if not form.readings or profile.format is not Format.CAVAGE:
        return None
    parameters = form.readings[0]
    return right_draft(Seen(message, components_of(message, parameters), parameters, profile)).text()


def _dialect(
    message: Message,
    form: Form,
    profile: SealProfile,
    dialects: Sequence[SealProfile],
    refused: Refusal | None,
) -> Diagnosis:
    names = ", ".join(row.name for row in dialects)
    evidence = (f"it verifies by: {names}", f"by {profile.name}: {refused}")
    cause = Cause(DIALECT.name, DIALECT.part, DIALECT.cause, evidence, DIALECT.mend)
    expected = _expected(message, form, dialects[0])
    return Diagnosis(Outcome.EXPLAINED, profile.name, (cause,), expected=expected, signed=expected)


def _causes(faults: Sequence[Fault]) -> tuple[Cause, ...]:
    rows = {one.mistake.name: one for one in reversed(faults)}
    ordered = dict.fromkeys(one.mistake.name for one in faults)
    return tuple(
        Cause(
            name,
            rows[name].mistake.part,
            rows[name].mistake.cause,
            (rows[name].detail,) if rows[name].detail else (),
            rows[name].mistake.mend,
        )
        for name in ordered
    )


class _Case:
    """One request that does not verify."""

    def __init__(
        self, message: Message, profile: SealProfile, form: Form, candidates: Sequence[EidasCertificate]
    ) -> None:
        self.message, self.profile, self.form, self.candidates = message, profile, form, candidates
        self.parameters = form.readings[0]
        self.values = components_of(message, self.parameters)
        self.digest_holds = True
        self.digest: DigestFinding | None = None
        self.hmac: str | None = None

    def examine(self, max_work: int) -> Search:
        """Look at digest and signature."""
        self._examine_digest()
        label = self.values.get("digest", "SHA-256").partition("=")[0]
        digests = possible_digests(self.message.body, algorithm=label)
        readings = [
            Seen(self.message, components_of(self.message, parameters), parameters, self.profile, digests)
            for parameters in self.form.readings
        ]
        search = find_signed(readings, text=self.form.text, certificates=self.candidates, max_work=max_work)
        if search.signed is None:
            self.hmac = self._find_hmac(readings[0])
        else:
            self.parameters = search.signed.seen.parameters
        return search

    def _examine_digest(self) -> None:
        value = self.values.get("digest")
        if value is None:  # which is a fault of the headers where the dialect wants one
            return
        body = self.message.body or (b"{}" if self.profile.empty_body is EmptyBody.BRACES else b"")
        try:
            verify_digest(value, body)
        except (FormatError, SignatureRejected):
            self.digest_holds = False
            self.digest = explain_digest(value, self.message.body)

    def _find_hmac(self, seen: Seen) -> str | None:
        data = right_draft(seen).text()
        for certificate in self.candidates:
            for secret in hmac_secrets(certificate.public_key, certificate.der):
                for written in decode_any(self.form.text):
                    name = is_hmac(written.raw, data, secret)
                    if name:
                        return name
        return None

    def faults(self, search: Search, sent: EidasCertificate | None) -> Iterator[Fault]:
        """Every mistake that was proven, in the order of verification."""
        signed = search.signed
        certificate = sent or self.candidates[0]
        counts = Counter(name.lower() for name, _ in self.message.headers)
        doubled = [name for name, count in counts.items() if count > 1]
        yield from coverage_faults(
            self.parameters, self.values, doubled, self.profile, has_body=bool(self.message.body)
        )
        if self.digest is not None:
            yield from (Fault(mistake, self._digest_evidence()) for mistake in self.digest.mistakes)
        yield from key_id_faults(self.parameters.key_id, certificate, self.candidates, self.profile)
        signer = signed.certificate if signed else certificate
        yield from algorithm_faults(self.parameters.algorithm, signer, self.profile)
        if self.hmac is not None:
            yield signing_fault("hmac-with-public-key", f"HMAC with {self.hmac}")
        if signed is not None:
            yield from self._faults_of_signature(signed, certificate)

    def _faults_of_signature(self, signed: Signed, certificate: EidasCertificate) -> Iterator[Fault]:
        if signed.certificate != certificate:
            row = "key-of-qwac" if "web" in signed.certificate.qc.types else "key-of-other"
            yield signing_fault(
                row, f"it verifies with the key of {signed.certificate.subject}, serial {signed.certificate.serial:X}"
            )
        if signed.written.name:
            yield signing_fault(f"signature-{signed.written.name}")
        expected = meant_algorithm(self.parameters.algorithm, signed.certificate, self.profile, signed.made)
        yield from faults_of_making(signed.made, expected)
        if signed.mistakes:
            evidence = _difference(signed)
            yield from (Fault(mistake, evidence) for mistake in signed.mistakes)

    def _digest_evidence(self) -> str:
        if self.digest is None or self.digest.hashed == self.message.body:
            return f"Digest: {self.values['digest'][:200]}"
        return (
            f"{self.digest.algorithm} of {len(self.digest.hashed)} bytes was sent, {len(self.message.body)} arrived; "
            f"they differ from byte {_first_difference(self.digest.hashed, self.message.body)}"
        )

    def report(self, search: Search, faults: Sequence[Fault], refused: Refusal | None) -> Diagnosis:
        """The diagnosis."""
        signed = search.signed
        proven = (signed is not None or self.hmac is not None) and (self.digest_holds or self.digest is not None)
        causes = _causes(faults)
        if proven and not causes and refused is not None:
            causes = (Cause(refused.code, Part.FORM, refused.message, (), refused.hint),)
        explained = proven and bool(causes)
        made = signed.made if signed else search.made
        return Diagnosis(
            Outcome.EXPLAINED if explained else Outcome.UNEXPLAINED,
            self.profile.name,
            causes,
            expected=signed.right.text() if signed else right_draft(self._seen()).text(),
            signed=signed_bytes(signed.draft) if signed else None,
            made=_told_making(made),
            recovered_hash=made.recovered.hex() if made and made.scheme.startswith("PKCS#1") else "",
            excluded=() if explained else tuple(self._excluded(search)),
            advice=() if explained else tuple(self._advice(search)),
            tried=search.tried,
        )

    def _seen(self) -> Seen:
        return Seen(self.message, self.values, self.parameters, self.profile)

    def _excluded(self, search: Search) -> Iterator[str]:
        if self.digest_holds:
            yield "the body: its digest is the one in the Digest header"
        if search.signed is not None:
            yield "the signature: it is over these headers, by the key of the certificate"
            return
        if search.made_by is not None and search.made is not None:
            yield f"the key: the signature was made with that of {search.made_by.subject} ({_told_making(search.made)})"
        elif search.readable:
            every = "none" if search.complete else "none of those that were tried"
            yield f"the signing string with one or two of {len(MISTAKES)} known mistakes: {every} fits, under any key that was given"

    def _advice(self, search: Search) -> Iterator[str]:
        if not self.digest_holds and self.digest is None:
            yield _OTHER_BODY
        if search.signed is not None:
            return
        if not search.readable:
            yield f"The signature cannot be by a key that was given: its length or form is another. {_MORE_CERTIFICATES}"
        elif search.made_by is not None and search.made is not None and search.made.recovered and search.made.hash:
            yield f"The key is right, but another text was signed: let the sender log the signing string and its {search.made.hash}."
            if search.made.scheme == "PKCS#1":
                yield f"The text that was signed has this {search.made.hash}: {search.made.recovered.hex()}"
        else:
            yield "Let the sender log the signing string and compare it with the one above, byte for byte."
            yield _MORE_CERTIFICATES


def _told_making(made: Made | None) -> str:
    if made is None:
        return ""
    salt = f", salt of {made.salt_length} bytes" if made.salt_length is not None else ""
    return f"{made.scheme}{f', {made.hash}' if made.hash else ''}{salt}"


def _first_difference(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def _difference(signed: Signed) -> str:
    right, wrong = signed.right.text(), signed_bytes(signed.draft)
    place = _first_difference(right, wrong)
    start = max(place - 12, 0)
    return (
        f"from byte {place}: signed {visible(wrong[start : place + 28])!r}, right {visible(right[start : place + 28])!r}"
    ).replace("\\n", "")
