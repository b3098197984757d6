"""Why a digest header does not fit the body: every way it may be written, against every body that may have been hashed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tppkit._encoding import encode_base64
from tppkit.seals.diagnose.bodies import BODY_MISTAKES, changed_bodies
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.mistakes import MISTAKES, Mistake
from tppkit.seals.diagnose.signatures import HASHES

_MAX_SIGNED = 256 * 1024
MAX_HASHED = 48 * 1024 * 1024  # bytes that one search hashes or writes

_SPELLINGS: Mapping[str, str] = MappingProxyType({
    "SHA": "SHA-1", "SHA1": "SHA-1", "SHA256": "SHA-256", "SHA512": "SHA-512", "SHA_256": "SHA-256", "SHA_512": "SHA-512", "MD5": "MD5",
    "SHA-1": "SHA-1", "SHA-256": "SHA-256", "SHA-384": "SHA-384", "SHA-512": "SHA-512",
})  # fmt: skip


class DigestFinding(NamedTuple):
    """Why a digest does not fit.

    Attributes:
        mistakes: together they lead to the digest.
        hashed: the bytes that were hashed.
        algorithm: the hash that was used.
    """

    mistakes: tuple[Mistake, ...]
    hashed: bytes
    algorithm: str


class _Reading(NamedTuple):
    mistakes: tuple[Mistake, ...]
    algorithm: str
    raw: bytes


def explain_digest(value: str, body: bytes) -> DigestFinding | None:
    """The mistakes that lead to this digest, with at most two changes of the body.

    Each algorithm of the header is judged by itself; None unless all of them are explained.

    Args:
        value: the header's value as received.
        body: as received.
    """
    pending = {part: tuple(_readings(part)) for part in _judged_parts(value)}
    found: list[DigestFinding] = []
    for mistakes, candidate in _candidates(body):
        hashes: dict[str, bytes] = {}
        for part, readings in tuple(pending.items()):
            for reading in readings:
                hashed = hashes.setdefault(reading.algorithm, b"") or HASHES[reading.algorithm].digest(candidate)
                hashes[reading.algorithm] = hashed
                if hashed == reading.raw:
                    found.append(DigestFinding((*mistakes, *reading.mistakes), candidate, reading.algorithm))
                    del pending[part]
                    break
        if not pending:
            mistakes_of_all = dict.fromkeys(mistake for one in found for mistake in one.mistakes)
            shown = next((one for one in found if one.hashed != body), found[0])
            return shown._replace(mistakes=tuple(mistakes_of_all))
    return None


def _judged_parts(value: str) -> tuple[str, ...]:
    """The parts that a verifier compares: those of SHA-256 and SHA-512, or every part if neither is there."""
    parts = tuple(dict.fromkeys([part.strip(" \t") for part in value[:4096].split(",")[:8]]))
    return tuple([part for part in parts if part.upper().startswith(("SHA-256=", "SHA-512="))]) or parts


def _candidates(body: bytes) -> Iterator[tuple[tuple[Mistake, ...], bytes]]:
    """The body, then one change of it, then two; each once, and within a budget of bytes."""
    yield (), body
    seen = {body}
    budget = MAX_HASHED
    level: list[tuple[tuple[Mistake, ...], bytes]] = [((), body)]
    for _ in range(2):
        changed_once: list[tuple[tuple[Mistake, ...], bytes]] = []
        for mistakes, start in level:
            for mistake in BODY_MISTAKES:
                for changed in changed_bodies(start, mistake=mistake):
                    budget -= 2 * (len(changed) + len(start))
                    if budget < 0:
                        return
                    if changed not in seen:
                        seen.add(changed)
                        changed_once.append(((*mistakes, mistake), changed))
                        yield changed_once[-1]
        level = changed_once


def _readings(part: str) -> Iterator[_Reading]:
    name, separator, encoded = part.partition("=")
    label = _SPELLINGS.get(name.upper())
    mistakes: tuple[Mistake, ...] = ()
    if label is None or not separator:
        label, encoded, mistakes = None, part, (MISTAKES["digest-bare"],)
    elif name.upper() not in (*HASHES, "SHA"):
        mistakes = (MISTAKES["digest-name"],)
    if len(encoded) > 2 and encoded[0] == encoded[-1] and encoded[0] in ":'\"":
        encoded, mistakes = encoded[1:-1], (*mistakes, MISTAKES["digest-in-colons"])
    for decoded in decode_any(encoded):
        algorithm = next((name for name, row in HASHES.items() if row.size == len(decoded.raw)), None)
        if algorithm is not None:
            more = ["digest-label"] * (label not in (None, algorithm))
            more += ["digest-weak"] * (algorithm not in ("SHA-256", "SHA-512"))
            more += [f"digest-{decoded.name}"] * bool(decoded.name)
            yield _Reading((*mistakes, *[MISTAKES[one] for one in more]), algorithm, decoded.raw)


def possible_digests(body: bytes, *, colons: bool) -> tuple[str, ...]:
    """Digest values that may have been signed instead of the one that was sent: of the body, and of one change of it.

    Args:
        body: as received.
        colons: the hash is between colons, as in Content-Digest.
    """
    mark = ":" if colons else ""
    bodies = [body]
    for mistake in BODY_MISTAKES if len(body) <= _MAX_SIGNED else ():
        bodies += changed_bodies(body, mistake=mistake)
    hashes = [(name, encode_base64(HASHES[name].digest(one))) for one in bodies for name in ("SHA-256", "SHA-512")]
    return tuple([f"{spelled}={mark}{hashed}{mark}" for name, hashed in hashes for spelled in (name, name.lower())])
