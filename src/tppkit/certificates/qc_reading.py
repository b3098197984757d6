"""QcStatements while they are read: what was found, and what was forgiven."""

from __future__ import annotations

from dataclasses import dataclass, field

from tppkit.certificates import der
from tppkit.errors import Finding, Severity

_STRING_TYPES = {der.UTF8_STRING: "UTF8String", der.IA5_STRING: "IA5String", der.PRINTABLE_STRING: "PrintableString"}


@dataclass(slots=True)
class QcReading:
    """The extension while it is read.

    Attributes:
        data: what it stands in; offsets are into this.
        statement_oids: identifiers of the statements, in order.
        seen: the same, to be asked.
        facts: fields of `QcStatements`.
        unknown: statements that are not read further.
        findings: what was forgiven.
    """

    data: bytes
    statement_oids: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    facts: dict[str, object] = field(default_factory=dict)
    unknown: list[tuple[str, bytes]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def note(self, code: str, message: str, offset: int) -> None:
        """Say what was forgiven, and where."""
        self.findings.append(Finding(code, Severity.ERROR, message, "TS 119 495 annex A", offset=offset))


def read_string(reading: QcReading, element: der.Element, tag: int, what: str) -> str:
    """The text of an element, which should be of the string type `tag`; another is forgiven and named.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    text = der.read_text(reading.data, element)
    if element.tag != tag:
        message = f"{what} has tag 0x{element.tag:02x}, not {_STRING_TYPES[tag]}"
        reading.note("qcstatements.string-type", message, element.offset)
    return text
