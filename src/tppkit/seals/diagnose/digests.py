"""Why a Digest header does not fit the body: read in every way it may have been written, compared with what may have been hashed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tppkit._encoding import encode_base64
from tppkit.seals.advice import digest_fault
from tppkit.seals.diagnose.bodies import BODY_MISTAKES, changed_bodies
from tppkit.seals.diagnose.encodings import ENCODINGS, decode_any
from tppkit.seals.diagnose.form import Fault
from tppkit.seals.diagnose.hashes import BY_SIZE, KNOWN
from tppkit.seals.diagnose.mistake import Mistake, Part, by_name
from tppkit.seals.profile import SealProfile

_MAX_SIGNED = 256 * 1024
MAX_HASHED = 48 * 1024 * 1024  # bytes that one search hashes or rewrites

_SPELLINGS = {"SHA": "SHA-1", "SHA1": "SHA-1", "SHA256": "SHA-256", "SHA512": "SHA-512", "SHA384": "SHA-384", "SHA_256": "SHA-256",
              "SHA_512": "SHA-512", "SHA-256": "SHA-256", "SHA-512": "SHA-512", "SHA-1": "SHA-1", "MD5": "MD5",
              "SHA-384": "SHA-384"}  # fmt: skip

DIGEST_REPLACED = Mistake(
    "digest-replaced", Part.DIGEST,
    "The Digest header was changed after signing: the digest that was signed is that of the body, the one that arrived is not.",
    "Set Digest once, before signing; look for a client or gateway that sets it anew.",
)  # fmt: skip
DIGEST_RFC_3230 = Mistake(
    "digest-rfc-3230", Part.DIGEST, "Content-Digest holds a value of the Digest header (RFC 3230): no colons stand around the hash.",
    "Write sha-256=:base64: in Content-Digest (RFC 9530).",
)  # fmt: skip
DIGEST_MISTAKES: tuple[Mistake, ...] = (
    DIGEST_REPLACED,
    DIGEST_RFC_3230,
    Mistake("digest-label", Part.DIGEST, "The Digest header names one algorithm and holds the hash of another.",
            "Write the name of the algorithm that was used: SHA-256 or SHA-512."),
    Mistake("digest-weak", Part.DIGEST, "The Digest header holds a hash that banks do not take.",
            "Hash with an algorithm that the dialect takes."),
    Mistake("digest-algorithm", Part.DIGEST,
            "The digest is by an algorithm, or under a spelling of its name, that the dialect does not take.",
            "Hash with the algorithm that the dialect names, and spell it so."),
    Mistake("digest-name", Part.DIGEST, "The Digest header spells the algorithm in a way that is not registered.",
            "Write SHA-256= or SHA-512=, with the hyphen."),
    Mistake("digest-bare", Part.DIGEST, "The Digest header holds the hash without the name of its algorithm.",
            "Write the name of the dialect's algorithm and an equals sign before the base64."),
    Mistake("digest-leading-zero", Part.DIGEST,
            "The hash was written as a number: a zero byte stands before it, as Java's BigInteger adds one.",
            "Encode the hash's bytes; never make a number of them."),
    Mistake("digest-zero-dropped", Part.DIGEST,
            "The hash was written as a number: its leading zero bytes are lost, as with Java's BigInteger (one body in 256).",
            "Encode the hash's bytes; never make a number of them."),
    *(
        Mistake(f"digest-{name}", Part.DIGEST, f"The hash in the Digest header {what}.", mend)
        for name, (what, mend) in ENCODINGS.items()
    ),
)  # fmt: skip
_ROWS = by_name(DIGEST_MISTAKES)


class Reading(NamedTuple):
    """One way to read the hash of one algorithm in a Digest header.

    Attributes:
        deviations: what is wrong with how it is written.
        algorithm: the name of the hash that was used.
        raw: the hash.
    """

    deviations: tuple[Mistake, ...]
    algorithm: str
    raw: bytes


class DigestFinding(NamedTuple):
    """Why a digest does not fit.

    Attributes:
        mistakes: together they give the digest.
        hashed: the bytes that were hashed.
        algorithm: with which hash.
        left: algorithms of the header whose hashes no known change explains.
    """

    mistakes: tuple[Mistake, ...]
    hashed: bytes
    algorithm: str
    left: tuple[str, ...] = ()


def algorithm_of_digest_faults(value: str, profile: SealProfile) -> Iterator[Fault]:
    """What the dialect finds wrong with the algorithms of a digest that fits."""
    fault = digest_fault(value, profile)
    if fault:
        yield Fault(_ROWS["digest-algorithm"], fault)


def explain_digest(value: str, body: bytes) -> DigestFinding | None:
    """What, done to the body or to its hash, gives this Digest value; at most two changes of the body.

    Each algorithm of the header is judged by itself; None when nothing is known of any.

    Args:
        value: of the header, as received.
        body: as received.
    """
    pending = {part: tuple(_readings(part)) for part in _judged_parts(value)}
    found: dict[str, DigestFinding] = {}
    for mistakes, candidate in _candidates(body):
        hashes: dict[str, bytes] = {}
        for part, readings in tuple(pending.items()):
            fitting = _fitting(readings, candidate, hashes)
            if fitting is not None:
                found[part] = DigestFinding((*mistakes, *fitting[0]), candidate, fitting[1])
                del pending[part]
        if not pending:
            break
    return _together(tuple(found.values()), left=tuple(pending), body=body)


def _together(found: tuple[DigestFinding, ...], *, left: tuple[str, ...], body: bytes) -> DigestFinding | None:
    if not found:
        return None
    mistakes = dict.fromkeys(mistake for one in found for mistake in one.mistakes)
    told = next((one for one in found if one.hashed != body), found[0])
    names = tuple([part.partition("=")[0][:40] for part in left])
    return DigestFinding(tuple(mistakes), told.hashed, told.algorithm, names)


def _judged_parts(value: str) -> tuple[str, ...]:
    """The parts that a verifier compares: those of SHA-256 and SHA-512; every part where there is none of them."""
    parts = tuple(dict.fromkeys([part.strip(" \t") for part in value[:4096].split(",")[:8]]))
    known = tuple([part for part in parts if part.upper().startswith(("SHA-256=", "SHA-512="))])
    return known or parts


def reads_as_digest(part: str) -> bool:
    """Whether one part of a Digest header can be read as a hash, in whatever way it was written.

    Args:
        part: one algorithm and its hash, as received.
    """
    return any(True for _ in _readings(part))


def _fitting(
    readings: tuple[Reading, ...], candidate: bytes, hashes: dict[str, bytes]
) -> tuple[tuple[Mistake, ...], str] | None:
    """What is wrong with how the hash of a candidate is written, and which hash it is; None when it is none of its hashes."""
    for reading in readings:
        if reading.algorithm not in hashes:
            hashes[reading.algorithm] = KNOWN[reading.algorithm].digest(candidate)
        number = _as_number(hashes[reading.algorithm], reading.raw)
        if number is not None:
            return (*reading.deviations, *number), reading.algorithm
    return None


def _as_number(expected: bytes, raw: bytes) -> tuple[Mistake, ...] | None:
    """What is between the right hash and the one that was written: nothing, a mistake with zeros, or None for too much."""
    if raw == expected:
        return ()
    if raw == b"\0" + expected:
        return (_ROWS["digest-leading-zero"],)
    if expected[0] == 0 and raw == expected.lstrip(b"\0"):
        return (_ROWS["digest-zero-dropped"],)
    return None


def _candidates(body: bytes) -> Iterator[tuple[tuple[Mistake, ...], bytes]]:
    """What may have been hashed: the body, then one change of it, then two; each once, and within a budget of bytes."""
    yield (), body
    seen = {body}
    budget = MAX_HASHED
    firsts: list[tuple[tuple[Mistake, ...], bytes]] = []
    for mistake in BODY_MISTAKES:
        for changed in changed_bodies(body, mistake=mistake):
            budget -= len(changed) + len(body)
            if changed not in seen and budget > 0:
                seen.add(changed)
                firsts.append(((mistake,), changed))
                yield firsts[-1]
    for mistakes, changed in firsts:
        for second in BODY_MISTAKES:
            for twice in changed_bodies(changed, mistake=second):
                budget -= 2 * (len(twice) + len(changed))
                if budget < 0:
                    return
                if twice not in seen:
                    seen.add(twice)
                    yield (*mistakes, second), twice


def _readings(part: str) -> Iterator[Reading]:
    name, separator, encoded = part.partition("=")
    label = _SPELLINGS.get(name.upper())
    if label is None or not separator:
        yield from _read_hash(part, None, (_ROWS["digest-bare"],))
    else:
        plain = name.upper() in (*KNOWN, "SHA")
        spelling = () if plain else (_ROWS["digest-name"],)
        yield from _read_hash(encoded, label, spelling)


def _read_hash(encoded: str, label: str | None, deviations: tuple[Mistake, ...]) -> Iterator[Reading]:
    for decoded in decode_any(encoded):
        written = (_ROWS[f"digest-{decoded.name}"],) if decoded.name else ()
        for algorithm in _algorithms(len(decoded.raw)):
            named = (_ROWS["digest-label"],) if label not in (None, algorithm) else ()
            weak = (_ROWS["digest-weak"],) if algorithm not in ("SHA-256", "SHA-512") else ()
            yield Reading((*deviations, *named, *weak, *written), algorithm, decoded.raw)


def _algorithms(size: int) -> Iterator[str]:
    """The hashes that a value of this size can be, with or without a zero too many or up to two too few."""
    for length, row in BY_SIZE.items():
        if size == length or size == length + 1 or length - 2 <= size < length:
            yield row.name


def possible_digests(body: bytes, *, like: str, colons: bool = False) -> tuple[tuple[str, str], ...]:
    """Digest values that may have been signed in place of the one that was sent: (what was done to the body, the value).

    Args:
        body: as received.
        like: the value that was sent: the hash is named and written as there.
        colons: the hash stands between colons, whatever was sent.
    """
    label, _, encoded = like.partition("=")
    mark = ":" if encoded.startswith(":") or colons else ""
    row = KNOWN.get(label.upper(), KNOWN["SHA-256"])
    name = label if label.upper() in KNOWN else row.name

    def write(row_name: str, hashed: bytes) -> str:
        return f"{row_name}={mark}{encode_base64(hashed)}{mark}"

    found: dict[str, str] = {write(name, row.digest(body)): ""}
    for other in ("SHA-256", "SHA-512"):
        found |= {write(spelled, KNOWN[other].digest(body)): "" for spelled in (other, other.lower())}
    for mistake in BODY_MISTAKES if len(body) <= _MAX_SIGNED else ():
        for changed in changed_bodies(body, mistake=mistake):
            found.setdefault(write(name, row.digest(changed)), mistake.name)
    return tuple((done, value) for value, done in found.items())
