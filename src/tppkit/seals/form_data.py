"""The uploaded file in a multipart/form-data body, for dialects whose digest covers the file alone.

    --boundary CRLF
    Content-Disposition: form-data; name="pain"; filename="pain.xml" CRLF
    CRLF
    <the file> CRLF
    --boundary--

Two readers of one form must never find two files, so whatever they could read differently is rejected: text before the first
delimiter or after the last, a boundary within a part, bare line feeds in headers, nested forms, transfer encodings, escapes in
names, `filename*`, and a second file, which the digest would not cover.
Source: RFC 7578 section 4; RFC 2046 section 5.1.
"""

from __future__ import annotations

import re

from tppkit._encoding import shown
from tppkit.errors import FormatError

MAX_PARTS = 64
MAX_PART_HEADERS_BYTES = 4096

_CRLF = b"\r\n"
_FIRST_LINE = re.compile(rb"--([0-9A-Za-z'()+_,./:=?-]{1,70})\r\n")
_PARAMETERS = re.compile(r'(?:[ \t]*;[ \t]*[A-Za-z-]+=(?:"[^"\\]*"|[0-9A-Za-z._+-]+))*[ \t]*;?[ \t]*')
_PARAMETER = re.compile(r';[ \t]*([A-Za-z-]+)=(?:"([^"]*)"|([^; \t]+))')
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_IDENTITY = frozenset({"", "7bit", "8bit", "binary"})


def uploaded_file(body: bytes, content_type: str | None) -> bytes | None:
    """Return the content of the only file in a form; None if the body is not a form.

        uploaded_file(message.body, message.single("content-type"))

    A form is recognised by its first line, and the Content-Type must agree. A record of evidence may not contain the Content-Type,
    because some dialects do not cover it.

    Args:
        body: the whole body.
        content_type: the value of the Content-Type field, or None.

    Raises:
        FormatError: `form-data.malformed`; `form-data.no-file`; `form-data.several-files`.
    """
    first = _FIRST_LINE.match(body)
    declared = None if content_type is None else _boundary_of(content_type)
    found = first[1].decode("ascii") if first else None
    if content_type is not None and found != declared:
        raise _malformed(f"the Content-Type is {shown(content_type)}, which does not fit the body's first line")
    if found is None:
        if body.startswith(b"--"):
            raise _malformed("the body begins like a form, but its first line is not a boundary")
        return None
    pieces = body.split(f"--{found}".encode("ascii"), MAX_PARTS + 2)
    if len(pieces) > MAX_PARTS + 2 or pieces[-1] not in (b"--", b"--\r\n") or len(pieces) < 3:
        raise _malformed(f"it is not 1 to {MAX_PARTS} parts that end with --boundary--")
    files = [content for is_file, content in map(_read_part, pieces[1:-1]) if is_file]
    if not files:
        raise FormatError("form-data.no-file", "the form has no part with a file name, so no file could be signed")
    if len(files) > 1:
        raise FormatError("form-data.several-files", f"the form has {len(files)} files; a seal covers only one")
    return files[0]


def _malformed(text: str) -> FormatError:
    return FormatError("form-data.malformed", f"the form: {text}")


def _boundary_of(content_type: str) -> str | None:
    """Return the boundary that a Content-Type declares; None if it is not multipart/form-data."""
    kind, parameters = _read_value(content_type)
    if not kind.startswith("multipart/"):
        return None
    if kind != "multipart/form-data" or "boundary" not in parameters:
        raise _malformed(f"the Content-Type {shown(content_type)} is not multipart/form-data with a boundary")
    return parameters["boundary"]


def _read_part(piece: bytes) -> tuple[bool, bytes]:
    """Return whether a part is a file, and its content."""
    head, blank, content = piece[2:-2].partition(_CRLF + _CRLF)
    if not (piece.startswith(_CRLF) and piece.endswith(_CRLF) and blank) or len(head) > MAX_PART_HEADERS_BYTES:
        raise _malformed("a part is not headers, an empty line and content between delimiters")
    values: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n"):
        match = _HEADER.fullmatch(line)
        if match is None or match[1].lower() in values:
            raise _malformed(f"a part has the header line {shown(line)}, which is malformed or appears twice")
        values[match[1].lower()] = match[2]
    disposition, parameters = _read_value(values.get("content-disposition", ""))
    if disposition != "form-data" or not parameters.get("name"):
        raise _malformed("a part has no Content-Disposition: form-data with a name")
    if values.get("content-transfer-encoding", "").strip(" \t").lower() not in _IDENTITY:
        raise _malformed("a part has a Content-Transfer-Encoding")
    if values.get("content-type", "").lower().lstrip(" \t").startswith("multipart/"):
        raise _malformed("a part is a form itself")
    name = parameters.get("filename")
    if name == "":
        raise _malformed("a part has an empty file name")
    return name is not None, content


def _read_value(text: str) -> tuple[str, dict[str, str]]:
    """Split the value of a Content-Type or Content-Disposition: its lower-case first word, and its parameters."""
    word, separator, rest = text.partition(";")
    if not _PARAMETERS.fullmatch(separator + rest):
        raise _malformed(f"{shown(text)} has a malformed parameter")
    parameters: dict[str, str] = {}
    for match in _PARAMETER.finditer(separator + rest):
        name = match[1].lower()
        if name in parameters:
            raise _malformed(f"{shown(text)} has {name} twice")
        parameters[name] = match[2] if match[2] is not None else match[3]
    return word.strip(" \t").lower(), parameters
