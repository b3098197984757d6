"""Why a digest header does not fit the body: every way it may be written, against every body that may have been hashed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.digest import verify_content_digest, verify_digest
from tppkit.httpsig.message import message_components
from tppkit.seals.diagnose.bodies import changed_bodies
from tppkit.seals.diagnose.encodings import decode_any
from tppkit.seals.diagnose.evidence import digest_evidence
from tppkit.seals.diagnose.examination import Examination
from tppkit.seals.diagnose.mistakes import MISTAKES, Finding, Mistake
from tppkit.seals.diagnose.signature_header import with_header
from tppkit.seals.diagnose.signatures import HASHES, digest_by
from tppkit.seals.profile import Format

_MAX_SIGNED = 256 * 1024
MAX_HASHED = 48 * 1024 * 1024  # bytes that one search hashes or writes

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


def examine_digest(examination: Examination) -> bool:
    """Explain a digest that does not fit, and let it be right from here on; return whether it was replaced after signing."""
    message, profile = examination.message, examination.profile
    value = message_components(message)[0].get(profile.digest_name)
    if value is None or _holds(value, examination):
        return False
    examination.message = with_header(message, profile.digest_field, profile.digest_of(message.body))
    signed = None if examination.signed is None else examination.signed.steps[-1].value(profile.digest_name)
    if signed is not None and signed != value and _holds(signed, examination):
        return True
    is_content = profile.format is Format.RFC9421
    found = explain_digest(value.replace("=:", "=").replace(":", "") if is_content else value, message.body)
    examination.digest_fits, examination.body_explained = False, found is not None
    if found is not None:
        evidence = digest_evidence(found.hashed, found.algorithm, value, message.body)
        examination.findings += [Finding(mistake, evidence) for mistake in found.mistakes]
    return False


def _holds(value: str, examination: Examination) -> bool:
    verify = verify_content_digest if examination.profile.format is Format.RFC9421 else verify_digest
    try:
        verify(value, examination.message.body or examination.profile.empty_content)
    except (FormatError, SignatureRejected):
        return False
    return True


class _Reading(NamedTuple):
    mistakes: tuple[Mistake, ...]
    algorithm: str
    raw: bytes


def explain_digest(value: str, body: bytes) -> DigestFinding | None:
    """The mistakes that lead to this digest, with at most two changes of the body.

    Args:
        value: the header's value as received; if it has several algorithms, all of them must be of the same bytes.
        body: as received.
    """
    parts = tuple([tuple(_readings(part)) for part in _judged_parts(value)])
    algorithms = {one.algorithm for part in parts for one in part}
    for mistakes, candidate in _candidates(body):
        hashes = {name: digest_by(name, candidate) for name in algorithms}
        fitting = [[one for one in part if hashes[one.algorithm] == one.raw][:1] for part in parts]
        if all(fitting):
            found = dict.fromkeys((*mistakes, *[mistake for (one,) in fitting for mistake in one.mistakes]))
            return DigestFinding(tuple(found), candidate, fitting[0][0].algorithm)
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
            for mistake, changed in changed_bodies(start):
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
