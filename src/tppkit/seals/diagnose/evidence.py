"""What a diagnosis reports of an examination: causes with their evidence, what was excluded and what to try next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from tppkit.httpsig.wire import length_differences
from tppkit.seals.diagnose.examination import Examination
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.mistakes import Mistake, Part
from tppkit.seals.diagnose.refusals import Refusal
from tppkit.seals.diagnose.report import Cause, Diagnosis, Outcome, visible
from tppkit.seals.diagnose.strings import SigningString
from tppkit.seals.profile import Format

NO_CERTIFICATE = "Give the certificate that the seal should be by (--cert): the request has none that can be read."
FORM_FIRST = "Correct this first: until the signature can be read, nothing is known of what was signed."

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


def first_difference(one: bytes, other: bytes) -> int:
    """The first byte in which they differ."""
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def digest_evidence(hashed: bytes, algorithm: str, value: str, body: bytes) -> str:
    """What was hashed, by length and first difference; the header, if the body itself was hashed."""
    if hashed == body:
        return f"the header is {value[:200]}"
    place = first_difference(hashed, body)
    return f"{algorithm} of {len(hashed)} bytes was sent, {len(body)} arrived; they differ from byte {place}"


def step_evidence(before: SigningString, after: SigningString) -> str:
    """What one mistake changed in what was signed, without secrets."""
    if after.hashed:
        return f"signed: {after.hashed} of {len(after.text())} bytes"
    right, wrong = (shown_bytes(string, show_values=False) for string in (before, after))
    if right is None or wrong is None:
        signed = after.signed()
        digest = hashlib.sha256(signed).hexdigest()
        return f"signed: {len(signed)} bytes that are no signing string, with the SHA-256 {digest}"
    place = first_difference(before.signed(), after.signed())
    shown = [visible(text[max(place - 12, 0) : place + 28]).replace("\n", "") for text in (wrong, right)]
    return f"from byte {place}: signed “{shown[0]}”, right “{shown[1]}”"


def make_diagnosis(examination: Examination, outcome: Outcome, **fields: Any) -> Diagnosis:
    """The report of an examination, with one cause for each mistake and all the evidence for it; then the refusals."""
    evidence: dict[Mistake, dict[str, None]] = {}
    for mistake, text in examination.findings:
        evidence.setdefault(mistake, {})[text] = None
    causes = [Cause(row.name, row.part, row.cause, tuple(texts), row.fix) for row, texts in evidence.items()]
    causes += [
        Cause(one.code, Part.REFUSED, f"{one.message}.", ("the verifier rejects the request for this",), one.hint)
        for one in examination.refusals
    ]
    unusable = [
        f"the public key of {one.subject}, which was given, cannot be read; it was not tried"
        for one in examination.unusable
    ]
    notes = (*length_differences(examination.given), *unusable)
    return Diagnosis(outcome, examination.profile.name, tuple(causes), notes=notes, **fields)


def accepted(examination: Examination, *, show_values: bool) -> Diagnosis:
    """The report of a request that the verifier accepts, as it is or with its certificate repaired."""
    read = examination.verifier.read(examination.message)
    right = SigningString.from_bytes(read.signing_string, is_jws=examination.profile.format is Format.JWS)
    outcome = Outcome.EXPLAINED if examination.findings else Outcome.VERIFIES
    return make_diagnosis(examination, outcome, expected=shown_bytes(right, show_values=show_values))


def searched(examination: Examination, right: SigningString, refused: Refusal, *, show_values: bool) -> Diagnosis:
    """The report of a request whose seal could be read.

    Args:
        examination: all its steps are done.
        right: the signing string as the verifier makes it.
        refused: why the verifier rejects the request.
        show_values: mask nothing.
    """
    search, signed = examination.search, examination.signed
    made = signed.made if signed is not None else search.certain.made if search.certain is not None else None
    last = signed.steps[-1] if signed is not None else right
    is_explained = signed is not None and examination.body_explained
    is_explained = is_explained and bool(examination.findings or examination.refusals)
    return make_diagnosis(
        examination,
        Outcome.EXPLAINED if is_explained else Outcome.UNEXPLAINED,
        expected=shown_bytes(right, show_values=show_values),
        signed=None if signed is None else shown_bytes(last, show_values=show_values),
        made="" if made is None else str(made),
        recovered_hash="" if made is None else made.recovered.hex(),
        excluded=() if is_explained else tuple(_excluded(examination)),
        advice=() if is_explained else tuple(_advice(examination, refused)),
        tried=search.tried,
        first_difference=first_difference(right.text(), last.signed()) if last != right else None,
    )


def _excluded(examination: Examination) -> Iterator[str]:
    """What was examined and is not the cause."""
    search = examination.search
    if examination.digest_fits and examination.given.values(examination.profile.digest_field):
        yield "the body: its digest is the one in the digest header"
    if examination.signed is not None:
        yield "the signature: what it is over and whose key made it is known"
        return
    if search.certain is not None:
        yield f"the key: the signature was made with that of {search.certain.certificate.subject}"
    if search.judges:
        bound = "all were tried" if search.left > 0 else "not all were tried: the bound on work was reached"
        yield f"the known mistakes in the signing string, alone and in pairs ({bound}): {search.tried} strings, none fits"


def _advice(examination: Examination, refused: Refusal) -> Iterator[str]:
    """What to try next."""
    search, signed = examination.search, examination.signed
    if signed is None and search.certain is None:
        is_qwac_known = any("web" in one.qc.types for one in examination.candidates)
        yield _GIVE_OTHERS if is_qwac_known else _GIVE_QWAC
    yield f"The verifier reports: {refused.message} [{refused.code}]. {refused.hint}"
    if not examination.body_explained:
        yield _OTHER_BODY
    if signed is not None:
        return
    if not search.judges:
        yield "The signature cannot be by a key that was given: its length or its encoding is another."
    elif search.certain is not None:
        made = search.certain.made
        yield f"The key is right, but another text was signed, with this {made.hash}: {made.recovered.hex()}"
    yield _COMPARE
