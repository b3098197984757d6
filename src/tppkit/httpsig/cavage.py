"""The Signature header of draft-cavage-http-signatures: its parameters and its signing string.

    Signature: keyId="SN=9FA1,CA=CN=…",algorithm="rsa-sha256",headers="digest x-request-id (request-target)",signature="…"

Read strictly: the drafts contradict each other on duplicate parameters (-10 takes the last, -12 refuses), and two
readers that differ are an attack, so what is not exactly in the form is refused.
Source: draft-cavage-http-signatures-10 sections 2.1 and 2.3 (the version the Berlin Group cites).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tppkit._encoding import decode_base64, shown
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.message import require_field_value

MAX_HEADER_LENGTH = 8192

_PARAMETER = re.compile(r'([A-Za-z][A-Za-z0-9_-]{0,31})=(?:"([^"\x00-\x1f\x7f]*)"|([0-9]{1,20}))(?:,[ \t]{0,8}|$)')
_REQUIRED = ("keyId", "algorithm", "headers", "signature")
_COVERED_NAME = re.compile(r"\(request-target\)|[!#$%&'*+.^_`|~0-9a-z-]{1,64}")


class SignatureParameters(NamedTuple):
    """What a Signature header says.

    Attributes:
        key_id: as written; a hint, never what decides.
        algorithm: as written; must be one that the certificate's key has.
        headers: names of the covered fields in order, lower case.
        signature: the decoded signature.
    """

    key_id: str
    algorithm: str
    headers: tuple[str, ...]
    signature: bytes


def parse_signature_header(value: str) -> SignatureParameters:
    """Read the value of a Signature header.

    Args:
        value: the header's value as received, at most 8,192 characters.

    Raises:
        FormatError: `signature.malformed`, `signature.duplicate-parameter`, `signature.missing-parameter`,
            `signature.covered-names`, `base64.malformed`, `base64.noncanonical`.

    Source: draft-cavage-http-signatures-10 section 2.1.
    """
    parameters = _read_parameters(value)
    for name in _REQUIRED:
        if name not in parameters:
            raise FormatError("signature.missing-parameter", f"the Signature header has no {name} parameter")
    return SignatureParameters(
        key_id=parameters["keyId"],
        algorithm=parameters["algorithm"],
        headers=parse_covered_names(parameters["headers"]),
        signature=decode_base64(parameters["signature"], what="the signature parameter"),
    )


def _read_parameters(value: str) -> dict[str, str]:
    if len(value) > MAX_HEADER_LENGTH:
        raise FormatError("signature.malformed", f"a Signature header of {len(value)} characters is too long")
    parameters: dict[str, str] = {}
    seen: set[str] = set()
    position = 0
    while position < len(value):
        match = _PARAMETER.match(value, position)
        if match is None or (match[3] is not None and match[1] in _REQUIRED):
            raise FormatError(
                "signature.malformed", f'no parameter name="value" at character {position} of the Signature header'
            )
        name, quoted, number = match.groups()
        if name.lower() in seen:  # one reader takes KEYID for another parameter than keyId, the next one for the same
            raise FormatError("signature.duplicate-parameter", f"the Signature header gives {name} twice")
        seen.add(name.lower())
        parameters[name] = quoted if number is None else number
        position = match.end()
    if not parameters or value[-1] in ", \t":
        raise FormatError("signature.malformed", "the Signature header is empty or ends with a comma")
    return parameters


def parse_covered_names(text: str) -> tuple[str, ...]:
    """The names in a `headers` parameter: lower case, one space between, none twice.

    Raises:
        FormatError: `signature.covered-names`.
    """
    names = tuple(text.split(" "))
    if len(set(names)) != len(names) or not all(_COVERED_NAME.fullmatch(name) for name in names):
        raise FormatError(
            "signature.covered-names", f"the headers parameter {shown(text)} is not lower-case names, each once"
        )
    return names


def make_signing_string(covered: Sequence[str], components: Mapping[str, str]) -> bytes:
    """The bytes that are signed: one line a covered component, joined by line feeds.

    Args:
        covered: names in order, lower case.
        components: by name, as `message.message_components` gives them.

    Raises:
        SignatureRejected: `signature.header-absent`, a covered field is not in the request.
        FormatError: `header.control-character`; `message.malformed` for a target with a space; `signature.covered-names` for an
            unknown `(…)`.

    Source: draft-cavage-http-signatures-10 section 2.3.
    """
    try:
        lines = [f"{name}: {components[name]}" for name in covered]
    except KeyError as e:
        raise _absent(e.args[0]) from None
    text = "".join(lines)
    if not (text.isascii() and text.isprintable()):
        for name in covered:
            require_field_value(name, components[name])
    return "\n".join(lines).encode("latin-1")


def _absent(name: str) -> FormatError | SignatureRejected:
    if name[:1] == "(":
        return FormatError("signature.covered-names", f"{name} is not a part of a request that can be covered here")
    return SignatureRejected(
        "signature.header-absent", f"the Signature header covers {name}, which is not in the request"
    )
