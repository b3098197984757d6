"""Names as trusted lists write them: RFC 2253, RFC 1779 and RFC 4514 text, with quotes, and `OID.` before identifiers."""

from __future__ import annotations

import re

from tppkit.certificates import DistinguishedName, parse_name
from tppkit.errors import FormatError

MAX_LISTED_NAME = 4096

_QUOTED = re.compile(r'=[ \t\r\n]*"((?:[^"\\]|\\.)*)"[ \t\r\n]*(?=[,;+]|\Z)', re.DOTALL)
_OID_PREFIX = re.compile(r"(^|[,+][ \t\r\n]*)OID\.(?=[0-9])", re.IGNORECASE)
_MUST_ESCAPE = re.compile(r"(?<!\\)([,+<>;#=])")
# The labels of Java, .NET and OpenSSL that RFC 4514 does not have.
_LABELS = {
    "SERIALNUMBER": "2.5.4.5", "ORGANIZATIONIDENTIFIER": "2.5.4.97", "ORGID": "2.5.4.97", "T": "2.5.4.12",
    "EMAIL": "1.2.840.113549.1.9.1", "G": "2.5.4.42", "OI": "2.5.4.97",
}  # fmt: skip
_LABEL = re.compile(rf"(^|[,+][ \t\r\n]*)({'|'.join(_LABELS)})(?=[ \t\r\n]*=)", re.IGNORECASE)


def parse_listed_name(text: str) -> DistinguishedName:
    """Read a subject name of a trusted list.

    Args:
        text: for example `CN="Example, S.A.", OID.2.5.4.97=VATPT-500000000, C=PT`.

    Raises:
        FormatError: `name.malformed`.
    """
    if len(text) > MAX_LISTED_NAME:
        raise FormatError("name.malformed", f"a name of {len(text)} characters is longer than {MAX_LISTED_NAME}")
    plain = _QUOTED.sub(lambda quoted: "=" + _MUST_ESCAPE.sub(r"\\\1", quoted.group(1)), text)
    plain = _OID_PREFIX.sub(r"\1", plain)
    return parse_name(_LABEL.sub(lambda label: label.group(1) + _LABELS[label.group(2).upper()], plain))
