"""The signing string of draft-cavage (`rfc9421` has its own)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tppkit._encoding import shown
from tppkit.errors import FormatError, SignatureRejected
from tppkit.message import Message

_WHITE_SPACE = " \t"
# RFC 9110 sections 5.1 and 5.6.2: the name of a field.
FIELD_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAME = re.compile(FIELD_NAME)
# A field name that a signature can cover: in lower case.
COVERED_FIELD = r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}"
_COVERED_FIELD = re.compile(COVERED_FIELD)
# No lower case, although RFC 9110 allows it: `(request-target)` is in lower case, so `post` would pass as `POST`.
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Z-]+")
REQUEST_TARGET = "(request-target)"
_USUAL_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})
# RFC 9110 section 5.5: visible characters, spaces and tabs; bytes above 0x7f are kept as Latin-1.
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def message_components(message: Message) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the parts of a message that a signature can cover, by lower-case name, and the names of duplicate fields.

        values, doubled = message_components(message)
        values["(request-target)"]  # "post /payments"

    Field values are stripped of white space; several of one name are joined by `, ` in wire order. `(request-target)` is the
    lower-case method, a space and the target.

    Raises:
        FormatError: `message.malformed`, method or target is not valid in a start line.

    Source: draft-cavage-http-signatures-10 section 2.3.
    """
    method, target, headers, _ = message
    if method not in _USUAL_METHODS or not (target.isascii() and target.isprintable() and target) or " " in target:
        require_start_line(message)
    start = f"{method.lower()} {target}"
    components = {name.lower(): value.strip(_WHITE_SPACE) for name, value in headers}
    if len(components) == len(headers) and REQUEST_TARGET not in components:
        components[REQUEST_TARGET] = start
        return components, ()
    values = {REQUEST_TARGET: [start]}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value.strip(_WHITE_SPACE))
    doubled = tuple([name for name, lines in values.items() if len(lines) > 1])
    return {name: ", ".join(lines) for name, lines in values.items()}, doubled


def make_signing_string(covered: Sequence[str], components: Mapping[str, str]) -> bytes:
    """Return the bytes to sign: one line for each covered component, joined by line feeds.

        data = make_signing_string(("(request-target)", "digest"), message_components(message)[0])

    Args:
        covered: names in order, lower case.
        components: values by name, from `message_components` and `cavage.time_components`.

    Raises:
        SignatureRejected: `signature.header-absent`, a covered field is absent.
        FormatError: `header.control-character`; `message.malformed`, the target has a space; `signature.covered-names`, an
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
        return FormatError("signature.covered-names", f"{name} is not a part of this request that can be covered")
    return SignatureRejected(
        "signature.header-absent", f"the Signature header covers {name}, which the message does not have"
    )


def is_field_name(name: str) -> bool:
    """Whether `name` is a valid header name (RFC 9110 section 5.1)."""
    return bool(_NAME.fullmatch(name))


def is_covered_field(name: str) -> bool:
    """Whether `name` is a field name that a signature can cover: in lower case, at most 64 characters."""
    return bool(_COVERED_FIELD.fullmatch(name))


def require_start_line(message: Message) -> None:
    """Reject a method or target that is not valid in a start line.

    Raises:
        FormatError: `message.malformed`.
    """
    if message.method not in _USUAL_METHODS and not _METHOD.fullmatch(message.method):
        raise FormatError("message.malformed", f"the method {shown(message.method)} is not an upper-case token")
    target = message.target
    if not (target.isascii() and target.isprintable() and target and " " not in target):
        raise FormatError("message.malformed", f"the target {shown(message.target)} has a space or control character")


def require_field_value(name: str, value: str) -> None:
    """Reject a header value with a control character (a line break would forge another header).

    Raises:
        FormatError: `header.control-character`.
    """
    if not _VALUE.fullmatch(value):
        raise FormatError("header.control-character", f"the {name} header has a control character: {shown(value)}")
