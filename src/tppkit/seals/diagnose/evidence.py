"""The evidence for a cause; and, where a request is not explained, what was excluded and what to try next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tppkit.seals.diagnose.digests import DigestFinding
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.refusals import Refusal
from tppkit.seals.diagnose.report import visible
from tppkit.seals.diagnose.search import Search, Signed
from tppkit.seals.diagnose.strings import SigningString

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


def digest_evidence(found: DigestFinding, value: str, body: bytes) -> str:
    """What was hashed, by length and first difference; the header, if the body itself was hashed."""
    if found.hashed == body:
        return f"the header is {value[:200]}"
    place = first_difference(found.hashed, body)
    return (
        f"{found.algorithm} of {len(found.hashed)} bytes was sent, {len(body)} arrived; they differ from byte {place}"
    )


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


def excluded(search: Search, signed: Signed | None, *, body_holds: bool) -> Iterator[str]:
    """What was examined and is not the cause."""
    if body_holds:
        yield "the body: its digest is the one in the digest header"
    if signed is not None:
        yield "the signature: what it is over and whose key made it is known"
        return
    if search.certain is not None:
        yield f"the key: the signature was made with that of {search.certain.certificate.subject}"
    if search.judges:
        bound = "all were tried" if search.left > 0 else "not all were tried: the bound on work was reached"
        yield f"the known mistakes in the signing string, alone and in pairs ({bound}): {search.tried} strings, none fits"


def advice(
    search: Search, signed: Signed | None, refused: Refusal, *, is_qwac_known: bool, body_explained: bool
) -> Iterator[str]:
    """What to try next.

    Args:
        search: for what was signed.
        signed: what it found.
        refused: why the verifier rejects the request.
        is_qwac_known: the key of a website certificate was tried.
        body_explained: the digest fits, or known mistakes lead to it.
    """
    if signed is None and search.certain is None:
        yield _GIVE_OTHERS if is_qwac_known else _GIVE_QWAC
    yield f"The verifier reports: {refused.message} [{refused.code}]. {refused.hint}"
    if not body_explained:
        yield _OTHER_BODY
    if signed is not None:
        return
    if not search.judges:
        yield "The signature cannot be by a key that was given: its length or its encoding is another."
    elif search.certain is not None:
        made = search.certain.made
        yield f"The key is right, but another text was signed, with this {made.hash}: {made.recovered.hex()}"
    yield _COMPARE
