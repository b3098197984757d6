"""State of the QcStatements reader: the facts and findings so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from tppkit.certificates import der
from tppkit.errors import Finding, Severity

_STRING_TYPES = {der.UTF8_STRING: "UTF8String", der.IA5_STRING: "IA5String", der.PRINTABLE_STRING: "PrintableString"}


@dataclass(slots=True)
class QcReading:
    """The state of reading one qcStatements extension.

    Attributes:
        data: the bytes that contain it; offsets are into these.
        statement_oids: identifiers of the statements, in order.
        seen: the same identifiers as a set.
        facts: fields of `QcStatements`.
        unknown: statements that are not parsed.
        findings: the accepted malformations.
    """

    data: bytes
    statement_oids: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    facts: dict[str, object] = field(default_factory=dict)
    unknown: list[tuple[str, bytes]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def report(self, code: str, message: str, offset: int) -> None:
        """Add a finding for an accepted malformation."""
        self.findings.append(Finding(code, Severity.ERROR, message, "TS 119 495 annex A", offset=offset))


def read_string(reading: QcReading, element: der.Element, tag: int, what: str) -> str:
    """Read the text of an element; another string type than `tag` is accepted with a finding.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    text = der.read_text(reading.data, element)
    if element.tag != tag:
        message = f"{what} has tag 0x{element.tag:02x}, not {_STRING_TYPES[tag]}"
        reading.report("qcstatements.string-type", message, element.offset)
    return text
