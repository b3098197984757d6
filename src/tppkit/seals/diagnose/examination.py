"""The examination of one request that does not verify: each step measured against the verifier's own refusal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from tppkit._encoding import decode_base64url, encode_base64, parse_json
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.algorithms import Algorithm, key_kind
from tppkit.httpsig.components import Origin
from tppkit.httpsig.digest import verify_content_digest, verify_digest
from tppkit.httpsig.jws_header import MAX_JWS_LENGTH, check_jws_header
from tppkit.httpsig.message import Message, message_components
from tppkit.httpsig.wire import length_differences
from tppkit.seals.diagnose.certificates import find_certificate
from tppkit.seals.diagnose.digests import explain_digest, possible_bodies
from tppkit.seals.diagnose.evidence import (
    FORM_FIRST,
    NO_CERTIFICATE,
    advice,
    digest_evidence,
    excluded,
    first_difference,
    step_evidence,
)
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.mistakes import MISTAKES, REFUSED, Finding, Part, finding
from tppkit.seals.diagnose.refusals import Refusal, Verifier
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome
from tppkit.seals.diagnose.search import MAX_WORK, Search, Signed
from tppkit.seals.diagnose.signature_header import tidy_signature, with_header
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
    verifier = Verifier(profile, at, qwac, origin)
    examination = Examination(message, verifier=verifier, certificates=certificates, max_work=max_work)
    return examination.run(show_values=show_values)


class Examination:
    """One request, with what was found so far.

        Examination(message, verifier=Verifier(PSD2_V1), certificates=[qwac], max_work=MAX_WORK).run(show_values=False)

    Attributes:
        message: the request, with each mistake in its headers corrected once it is proven.
        verifier: what it is judged by.
        certificate: its seal certificate; None until it is found.
        candidates: the certificates whose keys may have signed it, the seal's first.
        findings: the mistakes that were proven.
        refusals: what the verifier rejects besides, in its own words.
        signed: what was signed; None if it is not known.
        digest_fits: the digest is the body's, or was before it was replaced.
        body_explained: the digest fits, or known mistakes lead to it.
    """

    def __init__(
        self, message: Message, *, verifier: Verifier, certificates: Sequence[EidasCertificate], max_work: int
    ) -> None:
        known = dict.fromkeys((*certificates, *([verifier.qwac] if verifier.qwac is not None else [])))
        self.candidates = tuple([one for one in known if _has_key(one)])
        self.unusable = tuple([one for one in known if one not in self.candidates])
        self.given = self.message = message
        self.verifier = verifier
        self.profile = verifier.profile
        self.certificate: EidasCertificate | None = None
        self.findings: list[Finding] = []
        self.refusals: list[Refusal] = []
        self.signed: Signed | None = None
        self.digest_fits = self.body_explained = True
        self._max_work = max_work

    def run(self, *, show_values: bool) -> Diagnosis:
        """Examine the request."""
        # 1. The certificate is as it should be, or repaired.
        # 2. The verifier accepts the request as it is now, or in another dialect.
        # 3. Its seal can be read, or can after its Signature header was rewritten.
        # 4. The search finds what was signed, by which key and how.
        # 5. The digest fits the body, or a body that a known mistake makes of it.
        # 6. What the verifier rejects in the rest is reported in its own words.
        self._examine_certificate()  # 1
        refused = self.verifier.refusal(self.message, self.certificate)  # 2
        if refused is None:
            return self._accepted(show_values=show_values)
        dialects = self.verifier.other_dialects(self.given, self.certificate, refused=refused)
        if dialects:
            return self._in_other_dialect(dialects)
        try:  # 3
            read, text, is_coverage_known = self._read()
        except (FormatError, SignatureRejected) as e:
            return self._without_seal(e)
        if self.certificate is None:
            return self._without_seal(None)
        right = SigningString.from_bytes(read.signing_string, is_jws=self.profile.format is Format.JWS)
        search = self._search(read, right, text)  # 4
        was_replaced = self._examine_digest()  # 5
        if self.signed is not None:
            self._name_findings(self.signed, was_replaced=was_replaced)
        if self.signed is not None or is_coverage_known:
            self._examine_rest(self.certificate)  # 6
        return self._report(right, search, refused, show_values=show_values)

    # ---- 1 to 3: before the seal can be read

    def _examine_certificate(self) -> None:
        sent = find_certificate(self.message, profile=self.profile, known=self.candidates)
        self.message, self.certificate = sent.message, sent.certificate
        self.findings += sent.findings
        if self.certificate is not None:
            self.candidates = tuple(dict.fromkeys((self.certificate, *self.candidates, *sent.others)))
            self.verifier = self.verifier.with_origin(self.message, self.certificate)

    def _read(self) -> tuple[ReadSeal, str, bool]:
        """The seal, the signature as written, and whether the seal names what it covers.

        Raises:
            FormatError: the verifier's own refusal, as from `Verifier.read`.
            SignatureRejected: the same.
        """
        try:
            read = self.verifier.read(self.message)
            return read, encode_base64(read.parameters.signature), True
        except FormatError:
            if self.certificate is None or self.profile.format is not Format.CAVAGE:
                raise
            names = [] if (due := self._due(self.certificate)) is None else [self.profile.name_of(due)]
            tidied = tidy_signature(self.message, self.profile, algorithms=names)
            if tidied is None:
                raise
        self.message = tidied.message
        self.findings += tidied.findings
        return self.verifier.read(self.message), tidied.signature, tidied.is_coverage_known

    # ---- 4 and 5: what was signed, and what was hashed

    def _search(self, read: ReadSeal, right: SigningString, text: str) -> Search:
        values = message_components(self.message)[0]
        sent_names = {name.lower(): name for name, _ in self.message.headers}
        bodies = possible_bodies(self.message.body or self.profile.empty_content)
        digests = tuple(dict.fromkeys([self.profile.digest_of(body) for body in bodies]))
        seen = Seen(self.message, values, sent_names, digests, self.profile.digest_name)
        named = read.parameters.algorithm
        judges = make_judges(text, self.candidates, lambda owner: self._due(owner, named=named))
        search = Search(judges, max_work=self._max_work)
        self.signed = search.find(right, seen)
        return search

    def _due(self, owner: EidasCertificate, *, named: str = "") -> Algorithm | None:
        """The algorithm that the signature names, or else the usual one, for the key of a certificate."""
        with suppress(FormatError):
            names = self.profile.algorithms_of(key_kind(owner.public_key))
            return names.get(named) or self.profile.algorithm_for(owner)
        return None

    def _digest_holds(self, value: str) -> bool:
        verify = verify_content_digest if self.profile.format is Format.RFC9421 else verify_digest
        try:
            verify(value, self.message.body or self.profile.empty_content)
        except (FormatError, SignatureRejected):
            return False
        return True

    def _examine_digest(self) -> bool:
        """Explain a digest that does not fit, and let it be right from here on; return whether it was replaced after signing."""
        value = message_components(self.message)[0].get(self.profile.digest_name)
        if value is None or self._digest_holds(value):
            return False
        right = self.profile.digest_of(self.message.body)
        self.message = with_header(self.message, self.profile.digest_field, right)
        signed = None if self.signed is None else self.signed.steps[-1].value(self.profile.digest_name)
        if signed is not None and signed != value and self._digest_holds(signed):
            return True
        is_content = self.profile.format is Format.RFC9421
        bare = value.replace("=:", "=").replace(":", "") if is_content else value
        digest = explain_digest(bare, self.message.body)
        self.body_explained = digest is not None
        self.digest_fits = False
        if digest is not None:
            evidence = digest_evidence(digest, value, self.message.body)
            self.findings += [Finding(mistake, evidence) for mistake in digest.mistakes]
        return False

    def _name_findings(self, signed: Signed, *, was_replaced: bool) -> None:
        """Name what the signature proves."""
        owner, written = signed.judge.certificate, signed.judge.written
        if owner != self.certificate:
            row = "key-of-qwac" if "web" in owner.qc.types else "key-of-other"
            self.findings.append(finding(row, f"it verifies with the key of {owner.subject}, serial {owner.serial:X}"))
        if written.name:
            self.findings.append(finding(f"signature-{written.name}", f"read so, it has {len(written.raw)} bytes"))
        for mistake, before, after in zip(signed.mistakes, signed.steps, signed.steps[1:], strict=False):
            is_replaced = was_replaced and mistake.name == "value-digest-other"
            row_of_step = MISTAKES["digest-replaced"] if is_replaced else mistake
            self.findings.append(Finding(row_of_step, step_evidence(before, after)))
        self.findings += findings_of_making(signed.made, signed.judge.due)

    def _examine_rest(self, certificate: EidasCertificate) -> None:
        refused = self.verifier.refusal(self.message, certificate, any_signature=True)
        if refused is not None and refused.code in REFUSED:
            self.findings.append(finding(REFUSED[refused.code], refused.message))
        elif refused is not None:
            self.refusals.append(refused)

    # ---- reports

    def _causes(self) -> tuple[Cause, ...]:
        """One cause for each mistake, with all the evidence for it; then the refusals."""
        evidence: dict[str, dict[str, None]] = {}
        for mistake, text in self.findings:
            evidence.setdefault(mistake.name, {})[text] = None
        rows = {one.mistake.name: one.mistake for one in self.findings}
        causes = [
            Cause(name, rows[name].part, rows[name].cause, tuple(texts), rows[name].fix)
            for name, texts in evidence.items()
        ]
        refused = [
            Cause(one.code, Part.REFUSED, f"{one.message}.", ("the verifier rejects the request for this",), one.hint)
            for one in self.refusals
        ]
        return (*causes, *refused)

    def _notes(self) -> tuple[str, ...]:
        unusable = [
            f"the public key of {one.subject}, which was given, cannot be read; it was not tried"
            for one in self.unusable
        ]
        return (*length_differences(self.given), *unusable)

    def _accepted(self, *, show_values: bool) -> Diagnosis:
        read = self.verifier.read(self.message)
        right = SigningString.from_bytes(read.signing_string, is_jws=self.profile.format is Format.JWS)
        outcome = Outcome.EXPLAINED if self.findings else Outcome.VERIFIES
        return self._diagnosis(outcome, expected=shown_bytes(right, show_values=show_values))

    def _in_other_dialect(self, dialects: Sequence[SealProfile]) -> Diagnosis:
        names = ", ".join(row.name for row in dialects)
        refused = self.verifier.refusal(self.given, self.certificate)
        found = [f"it verifies by {names}", f"by {self.profile.name}: {refused}"]
        self.findings = [finding("other-dialect", evidence) for evidence in found]
        return self._diagnosis(Outcome.EXPLAINED)

    def _without_seal(self, refused: Refusal | None) -> Diagnosis:
        """The seal cannot be read, or there is no certificate: report the parser's findings."""
        is_missing = not self.message.values(self.profile.carrier)
        if is_missing and refused is not None:
            self.findings.append(finding("signature-missing", refused.message))
        elif refused is not None:
            self.refusals += _jws_refusals(self.message, self.profile) or [refused]
        steps = [NO_CERTIFICATE] if self.certificate is None else []
        steps += [] if is_missing or refused is None else [FORM_FIRST]
        return self._diagnosis(Outcome.EXPLAINED if is_missing else Outcome.UNEXPLAINED, advice=tuple(steps))

    def _report(self, right: SigningString, search: Search, refused: Refusal, *, show_values: bool) -> Diagnosis:
        signed = self.signed
        made = signed.made if signed is not None else search.certain.made if search.certain is not None else None
        last = signed.steps[-1] if signed is not None else right
        found = self._diagnosis(
            Outcome.EXPLAINED,
            expected=shown_bytes(right, show_values=show_values),
            signed=None if signed is None else shown_bytes(last, show_values=show_values),
            made="" if made is None else str(made),
            recovered_hash="" if made is None else made.recovered.hex(),
            tried=search.tried,
            first_difference=first_difference(right.text(), last.signed()) if last != right else None,
        )
        if signed is not None and self.body_explained and found.causes:
            return found
        is_qwac_known = any("web" in one.qc.types for one in self.candidates)
        body_holds = self.digest_fits and bool(self.given.values(self.profile.digest_field))
        steps = advice(search, signed, refused, is_qwac_known=is_qwac_known, body_explained=self.body_explained)
        not_causes = tuple(excluded(search, signed, body_holds=body_holds))
        return replace(found, outcome=Outcome.UNEXPLAINED, excluded=not_causes, advice=tuple(steps))

    def _diagnosis(self, outcome: Outcome, **fields: Any) -> Diagnosis:
        return Diagnosis(outcome, self.profile.name, self._causes(), notes=self._notes(), **fields)


def _has_key(certificate: EidasCertificate) -> bool:
    try:
        return certificate.public_key is not None
    except FormatError:
        return False


def _jws_refusals(message: Message, profile: SealProfile) -> list[Refusal]:
    """Everything that the parser of JSON Web Signatures rejects in a protected header, if that can be read."""
    value = next(iter(message.values(profile.carrier)), "").strip(" \t")
    with suppress(FormatError):
        raw = decode_base64url(value[:MAX_JWS_LENGTH].partition(".")[0], what="the protected header")
        header = parse_json(raw, what="the protected header", max_bytes=MAX_JWS_LENGTH, max_depth=4)
        if profile.format is Format.JWS and isinstance(header, dict):
            return [error for _, error in check_jws_header(header)]
    return []
