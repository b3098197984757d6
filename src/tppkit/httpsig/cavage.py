"""The Signature header of draft-cavage-http-signatures: its parameters.

    Signature: keyId="SN=9FA1,CA=CN=…",algorithm="rsa-sha256",headers="digest x-request-id (request-target)",signature="…"

The parser is strict, because parsers that disagree allow attacks: for example, -10 uses the last of two parameters with one
name, -12 rejects them. A `Reading` states what a dialect tolerates, and the default of an absent parameter.
Source: draft-cavage-http-signatures-10 sections 2.1 and 2.3 (the version the Berlin Group cites); -12 for `(created)` and
`(expires)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tppkit._encoding import decode_base64, shown
from tppkit.errors import FormatError
from tppkit.httpsig.signing_string import COVERED_FIELD

MAX_HEADER_LENGTH = 8192
CREATED, EXPIRES = "(created)", "(expires)"
AUTHORIZATION_SCHEME = "Signature "

# Base64, or a token of RFC 9110 section 5.6.2 without single quotes and backticks, which another parser may read as quotes.
_BARE = r"[A-Za-z0-9+/]+={0,2}|[!#$%&*+.^_|~0-9A-Za-z-]+"
_PARAMETER = re.compile(
    r'([A-Za-z][A-Za-z0-9_-]{0,31})=(?:"([ !#-~\x80-\U0010ffff]*)"' rf"|({_BARE}))(?:,[ \t]{{0,8}}|$)"
)
# What nearly all senders write, in one match that takes half the time; everything else is read parameter by parameter.
_USUAL = re.compile(
    r'keyId="(?P<keyId>[ !#-~]*)",algorithm="(?P<algorithm>[ !#-~]*)",headers="(?P<headers>[ !#-~]*)",'
    r'signature="(?P<signature>[A-Za-z0-9+/=]*)"'
)
_REQUIRED = ("keyId", "algorithm", "headers", "signature")
_TIMES = ("created", "expires")
_COVERED_NAME = rf"(?:{COVERED_FIELD}|\((?:request-target|created|expires)\))"
_COVERED_NAMES = re.compile(rf"{_COVERED_NAME}(?: {_COVERED_NAME})*")
# These algorithms are from drafts without times, so a signature with one of them cannot cover a time.
TIMELESS = ("rsa", "hmac", "ecdsa")


class Reading(NamedTuple):
    """The tolerated deviations from the strict form.

    Attributes:
        any_case: names in `headers` may have capital letters, which are converted to lower case.
        bare_signature: the signature may appear without quotes.
        absent_headers: the default of an absent `headers`; with a default, `algorithm` may be absent too. Empty: both are required.
    """

    any_case: bool = False
    bare_signature: bool = False
    absent_headers: tuple[str, ...] = ()


STRICT = Reading()
DRAFT_10 = Reading(absent_headers=("date",))
DRAFT_12 = Reading(absent_headers=(CREATED,))


class SignatureParameters(NamedTuple):
    """The contents of a Signature header.

    Attributes:
        key_id: as written; a hint only.
        algorithm: as written; the certificate's key must support it. Empty if absent and the reading allows it.
        headers: names of the covered fields in order, lower case.
        signature: the decoded signature.
        created: seconds since 1970, or None.
        expires: seconds since 1970, or None.
    """

    key_id: str
    algorithm: str
    headers: tuple[str, ...]
    signature: bytes
    created: int | None = None
    expires: int | None = None


def parse_signature_header(value: str, *, reading: Reading = STRICT) -> SignatureParameters:
    """Parse the value of a Signature header.

    Args:
        value: the header's value as received, at most 8,192 characters; of an Authorization header the part after `Signature `.
        reading: the tolerated deviations; `DRAFT_10` and `DRAFT_12` have the drafts' defaults for an absent `headers`.

    Raises:
        FormatError: `signature.malformed`, `signature.duplicate-parameter`, `signature.missing-parameter`,
            `signature.covered-names`, `signature.time-not-allowed`, `base64.malformed`, `base64.noncanonical`.

    Source: draft-cavage-http-signatures-10 section 2.1; -12 sections 2.1 and 2.3.
    """
    parameters = _read_parameters(value, reading)
    if reading.absent_headers:
        parameters = {"headers": " ".join(reading.absent_headers), "algorithm": ""} | parameters
    try:
        key_id, algorithm = parameters["keyId"], parameters["algorithm"]
        names, encoded = parameters["headers"], parameters["signature"]
    except KeyError as e:
        raise FormatError("signature.missing-parameter", f"the Signature header has no {e.args[0]} parameter") from None
    covered = parse_covered_names(names, any_case=reading.any_case)
    signature = decode_base64(encoded, what="the signature parameter")
    created = int(parameters["created"]) if "created" in parameters else None
    expires = int(parameters["expires"]) if "expires" in parameters else None
    if CREATED in covered:
        _check_covered_time(CREATED, created, algorithm)
    if EXPIRES in covered:
        _check_covered_time(EXPIRES, expires, algorithm)
    return SignatureParameters(key_id, algorithm, covered, signature, created, expires)


def _read_parameters(value: str, reading: Reading) -> dict[str, str]:
    if len(value) > MAX_HEADER_LENGTH:
        raise FormatError("signature.malformed", f"a Signature header of {len(value)} characters is too long")
    if usual := _USUAL.fullmatch(value):
        return usual.groupdict()
    parameters: dict[str, str] = {}
    seen: set[str] = set()
    position = 0
    while position < len(value):
        match = _PARAMETER.match(value, position)
        name, quoted, bare = match.groups() if match else ("", None, "")
        if match is None or ((quoted is None or name in _TIMES) and not _may_be_bare(name, bare or "", reading)):
            raise FormatError(
                "signature.malformed", f'no parameter name="value" at character {position} of the Signature header'
            )
        lower = name.lower()
        if lower in seen:  # parsers disagree on whether KEYID and keyId are the same
            raise FormatError("signature.duplicate-parameter", f"the Signature header gives {name} twice")
        seen.add(lower)
        parameters[name] = bare if quoted is None else quoted
        position = match.end()
    if not parameters or value[-1] in ", \t":
        raise FormatError("signature.malformed", "the Signature header is empty or ends with a comma")
    return parameters


def _may_be_bare(name: str, bare: str, reading: Reading) -> bool:
    """Whether a parameter may appear without quotes: times only as numbers, the required ones never, unknown ones always."""
    if name in _TIMES:
        return bare.isdigit() and len(bare) <= 20
    return name not in _REQUIRED or (name == "signature" and reading.bare_signature)


def parse_covered_names(text: str, *, any_case: bool = False) -> tuple[str, ...]:
    """Parse a `headers` parameter: lower-case names separated by one space, each once.

    Args:
        text: the parameter.
        any_case: convert capital letters to lower case.

    Raises:
        FormatError: `signature.covered-names`.
    """
    lower = text.lower() if any_case and text.isascii() else text
    names = tuple(lower.split(" "))
    if len(set(names)) != len(names) or not _COVERED_NAMES.fullmatch(lower):
        raise FormatError(
            "signature.covered-names", f"the headers parameter {shown(text)} is not lower-case names, each once"
        )
    return names


def _check_covered_time(name: str, time: int | None, algorithm: str) -> None:
    if time is None:
        raise FormatError("signature.missing-parameter", f"the signature covers {name}, but the parameter is absent")
    if algorithm.startswith(TIMELESS):
        raise FormatError("signature.time-not-allowed", f"a signature by {shown(algorithm)} cannot cover {name}")


def time_components(parameters: SignatureParameters) -> Mapping[str, str]:
    """Return the values of `(created)` and `(expires)` in the signing string, without absent ones."""
    times = {CREATED: parameters.created, EXPIRES: parameters.expires}
    return {name: str(value) for name, value in times.items() if value is not None}
