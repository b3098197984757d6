"""Why a digest header does not fit the body: every way it may be written, against the body and each known change of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from tppkit.seals.diagnose.bodies import changed_bodies
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.mistakes import MISTAKES, Mistake
from tppkit.seals.diagnose.signatures import HASHES, digest_by

_MAX_SIGNED = 256 * 1024

# The names without hyphens; RFC 3230 calls SHA-1 `SHA`.
_ALGORITHMS: Mapping[str, str] = MappingProxyType({"SHA": "SHA-1"} | {name.replace("-", ""): name for name in HASHES})


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
    """The mistakes that lead to this digest, with at most one change of the body.

    Args:
        value: the header's value as received; if it has several algorithms, all of them must be of the same bytes.
        body: as received.
    """
    parts = tuple([tuple(_readings(part)) for part in _judged_parts(value)])
    algorithms = {one.algorithm for part in parts for one in part}
    for change, candidate in chain([(None, body)], changed_bodies(body)):
        hashes = {name: digest_by(name, candidate) for name in algorithms}
        fitting = [[one for one in part if hashes[one.algorithm] == one.raw][:1] for part in parts]
        if all(fitting):
            found = dict.fromkeys([mistake for (one,) in fitting for mistake in one.mistakes])
            return DigestFinding((*((change,) if change else ()), *found), candidate, fitting[0][0].algorithm)
    return None


def _judged_parts(value: str) -> tuple[str, ...]:
    """The parts that a verifier compares: those of SHA-256 and SHA-512, or every part if neither is there."""
    parts = tuple(dict.fromkeys([part.strip(" \t") for part in value[:4096].split(",")[:8]]))
    return tuple([part for part in parts if part.upper().startswith(("SHA-256=", "SHA-512="))]) or parts


def _readings(part: str) -> Iterator[_Reading]:
    name, separator, encoded = part.partition("=")
    label = _ALGORITHMS.get(name.upper().replace("-", "").replace("_", ""))
    names: list[str] = []
    if label is None or not separator:
        label, encoded, names = None, part, ["digest-bare"]
    elif name.upper() not in (*HASHES, "SHA"):
        names = ["digest-name"]
    if len(encoded) > 2 and encoded[0] == encoded[-1] and encoded[0] in ":'\"":
        encoded, names = encoded[1:-1], [*names, "digest-in-colons"]
    for decoded in decode_any(encoded):
        algorithm = next((name for name, row in HASHES.items() if row.digest_size == len(decoded.raw)), None)
        if algorithm is not None:
            more = ["digest-label"] * (label not in (None, algorithm))
            more += ["digest-weak"] * (algorithm not in ("SHA-256", "SHA-512"))
            more += [f"digest-{decoded.name}"] * bool(decoded.name)
            yield _Reading(tuple([MISTAKES[one] for one in (*names, *more)]), algorithm, decoded.raw)


def possible_bodies(body: bytes) -> Iterator[bytes]:
    """The bodies whose digest may have been signed instead of the one that was sent: the body, and one change of it."""
    yield body
    if len(body) <= _MAX_SIGNED:
        yield from (changed for _, changed in changed_bodies(body))
