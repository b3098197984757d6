"""What was found, in words: evidence for each cause, what was excluded, what to try next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from tppkit.certificates import EidasCertificate
from tppkit.seals.diagnose.digests import DigestFinding
from tppkit.seals.diagnose.draft import Draft
from tppkit.seals.diagnose.form import Fault
from tppkit.seals.diagnose.judging import DIALECT, Refusal
from tppkit.seals.diagnose.malformed import tell_malformed
from tppkit.seals.diagnose.masking import shown_bytes
from tppkit.seals.diagnose.mistake import Part
from tppkit.seals.diagnose.recover import Made
from tppkit.seals.diagnose.report import Cause, visible
from tppkit.seals.diagnose.search import MISTAKES, Search
from tppkit.seals.diagnose.strings import signed_bytes
from tppkit.seals.profile import SealProfile

_KEY_OF_QWAC = "The request may be sealed with the QWAC's key: give the QWAC with --qwac to find out."
_OTHER_KEYS = "No key that was given fits, not the QWAC's either: give others with --cert, for example those from before a renewal."
_SET_ANEW = (
    "A header that is set anew after signing (another X-Request-ID or Date on a retry), and an unusual base path that a proxy removes, "
    "cannot be found by search: compare the values above with those in the sender's log."
)
_OTHER_BODY = (
    "The body that arrived is not the one that was hashed, and no known change leads from one to the other: compare the bytes "
    "at the sender with those here, and look for a proxy that rewrites bodies."
)


def causes_of(faults: Sequence[Fault]) -> tuple[Cause, ...]:
    """One cause for each mistake, with all the evidence for it."""
    evidence: dict[str, dict[str, None]] = {}
    for one in faults:
        evidence.setdefault(one.mistake.name, {}).update({one.detail: None} if one.detail else {})
    rows = {one.mistake.name: one.mistake for one in faults}
    return tuple(
        Cause(name, rows[name].part, rows[name].cause, tuple(texts), rows[name].mend)
        for name, texts in evidence.items()
    )


def refused_cause(refused: Refusal) -> Cause:
    """What the verifier refuses besides, by its code."""
    return Cause(
        refused.code,
        Part.REFUSED,
        f"{refused.message}.",
        ("the verifier, the rest mended, refuses it for this",),
        refused.hint,
    )


def tell_refusal(refused: Refusal) -> str:
    """What the verifier says."""
    return f"The verifier says: {refused.message} [{refused.code}]. {refused.hint}"


def dialect_cause(
    dialects: Sequence[SealProfile], profile: SealProfile, refused: Refusal, differing: Sequence[Cause]
) -> Cause:
    """The request is right in another dialect; what differs from the one that was asked for."""
    evidence = [f"it verifies by: {', '.join(row.name for row in dialects)}", f"by {profile.name}: {refused}"]
    evidence += [f"for {profile.name}: {one.sentence} {'; '.join(one.evidence)}" for one in differing]
    mends = " ".join(dict.fromkeys(f"{one.mend.rstrip('.')}." for one in differing))
    mend = f"For {profile.name}: {mends} For the other bank, name its dialect (--profile)." if mends else DIALECT.mend
    return Cause(DIALECT.name, DIALECT.part, DIALECT.cause, tuple(evidence), mend)


def tell_digest(finding: DigestFinding, value: str, body: bytes) -> str:
    """What was hashed, by length and first difference; the header where the body is the one that was hashed."""
    if finding.hashed == body:
        return f"Digest: {value[:200]}"
    return (
        f"{finding.algorithm} of {len(finding.hashed)} bytes was sent, {len(body)} arrived; "
        f"they differ from byte {first_difference(finding.hashed, body)}"
    )


def tell_step(before: Draft, after: Draft, *, show_values: bool) -> str:
    """What one mistake changed in what was signed."""
    if after.hashed != before.hashed and after.hashed:
        return f"signed: {after.hashed} of {len(before.text())} bytes"
    right, wrong = (shown_bytes(draft, show_values=show_values) for draft in (before, after))
    if right is None or wrong is None:
        signed = signed_bytes(after)
        return f"signed: {len(signed)} bytes that are no signing string, with the SHA-256 {hashlib.sha256(signed).hexdigest()}"
    place = first_difference(signed_bytes(before), signed_bytes(after))
    start = max(place - 12, 0)
    shown = [visible(text[start : place + 28]).replace("\n", "") for text in (wrong, right)]
    return f"from byte {place}: signed “{shown[0]}”, right “{shown[1]}”"


def first_difference(one: bytes, other: bytes) -> int:
    """The first byte in which they differ."""
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def tell_making(made: Made | None) -> str:
    """Scheme, hash and salt."""
    if made is None:
        return ""
    salt = f", salt of {made.salt_length} bytes" if made.salt_length is not None else ""
    return f"{made.scheme}{f', {made.hash}' if made.hash else ''}{salt}"


def tell_excluded(search: Search, certificates: Sequence[EidasCertificate], *, digest_holds: bool) -> Iterator[str]:
    """What was looked at and is not the cause, with what was searched."""
    if digest_holds:
        yield "the body: its digest is the one in the Digest header"
    if search.signed is not None:
        yield "the signature: what it is over and by whose key is known"
        return
    if search.made_by is not None and search.made is not None:
        yield f"the key: the signature was made with that of {search.made_by.subject} ({tell_making(search.made)})"
    if search.readable:
        bound = "every pair of them" if search.complete else "pairs of them, not all: the bound on work was reached"
        yield (
            f"the signing string as it should be, each of {len(MISTAKES)} known mistakes in it, and {bound}: "
            f"{search.tried} strings under {len(certificates)} certificate{'' if len(certificates) == 1 else 's'}, none fits"
        )


def tell_key(search: Search, certificates: Sequence[EidasCertificate]) -> Iterator[str]:
    """Whose key may be missing, where no key fits."""
    if search.signed is None and search.made_by is None:
        yield _OTHER_KEYS if any("web" in one.qc.types for one in certificates) else _KEY_OF_QWAC


def tell_advice(
    search: Search,
    text: str,
    certificates: Sequence[EidasCertificate],
    digest: DigestFinding | None,
    *,
    digest_fails: bool,
) -> Iterator[str]:
    """What to try next."""
    if digest is not None and digest.left:
        yield f"The hash of {' and '.join(digest.left)} in the Digest header is of no known form of this body: {_OTHER_BODY}"
    elif digest_fails and digest is None:
        yield _OTHER_BODY
    if search.signed is not None:
        return
    if search.readable:
        yield _SET_ANEW
    if not search.readable:
        yield "The signature cannot be by a key that was given: its length or form is another."
        yield from tell_malformed(text, certificates)
    elif search.made_by is not None and search.made is not None and search.made.hash:
        yield f"The key is right, but another text was signed: let the sender log the signing string and its {search.made.hash}."
        if search.made.scheme == "PKCS#1":
            yield f"The text that was signed has this {search.made.hash}: {search.made.recovered.hex()}"
    else:
        yield "Let the sender log the signing string and compare it with the one above, byte for byte."
