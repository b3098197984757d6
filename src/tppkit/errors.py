"""The exceptions that several rooms share, and the finding that checks report.

    TppkitError                    code, message, hint
    ├── FormatError                the input does not have the expected format
    ├── VerificationError          well formed, but verification fails; carries findings
    │   ├── CertificateRejected    a certificate that is not trusted, or does not fit its use
    │   │   └── LeafRevoked        an end entity that a valid chain proves revoked
    │   └── SignatureRejected      a missing or invalid seal
    ├── ProtocolError              one side broke the rules of an interface
    │   ├── LocalProtocolError     ours: the request breaks the rules
    │   ├── RemoteProtocolError    theirs: the answer breaks the rules
    │   │   └── OutcomeUnknown     the request may have been carried out
    │   └── RequestRefused         theirs, by the rules: an error answer with status and codes
    ├── TransportError             no answer: connection, TLS or timeout
    ├── ArchiveError               an archive that cannot be opened or extended
    └── ConfigurationError         settings, files or extras that cannot work

What only one package raises is defined there, below one of these classes.

`code` is stable and dotted; the message is for people and may change. `tppkit.codes` explains each code but those of wrong settings.
No message holds a key, token, password or body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from tppkit._text import printable
from tppkit.codes import CODES


class Severity(StrEnum):
    """The weight of a finding: only an error makes a check fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        code: stable dotted code, a row of `tppkit.codes.CODES`.
        severity: `error` makes the check fail; `warning` and `notice` do not.
        message: one sentence for people that names the values.
        clause: the clause of the rule, or None.
        values: the compared values by name.
        offset: byte offset of the fault in the DER of the certificate or extension value, or None.

    Example:
        for finding in check_pair(qwac, qsealc):
            print(finding.severity, finding.code, finding.message)
    """

    code: str
    severity: Severity
    message: str
    clause: str | None = None
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    offset: int | None = None

    def to_object(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        found: dict[str, Any] = {
            "code": self.code,
            "severity": self.severity.value,
            "clause": self.clause,
            "message": self.message,
        }
        if self.values:
            found["values"] = dict(self.values)
        if self.offset is not None:
            found["offset"] = self.offset
        return found

    def __reduce__(self) -> tuple[object, ...]:
        # Read-only mappings cannot be pickled, and findings travel between worker processes.
        state = (self.code, self.severity, self.message, self.clause, dict(self.values), self.offset)
        return _restore_finding, state


def _restore_finding(
    code: str, severity: Severity, message: str, clause: str | None, values: dict[str, str], offset: int | None
) -> Finding:
    return Finding(code, severity, message, clause, MappingProxyType(values), offset)


def code_of(error: BaseException) -> str:
    """Return the code of an error of tppkit, or the class name of another error.

    For logs and counters: messages may contain personal data.
    """
    return error.code if isinstance(error, TppkitError) else type(error).__qualname__[:100]


class TppkitError(Exception):
    """Base of every exception that tppkit raises on purpose.

    Attributes:
        code: stable dotted code.
        message: what is wrong, for people.
        clause: the clause of the rule that is broken, or None.

    Example:
        try:
            verify_request(message, qwac=None, at=utc_now(), policy=policy)
        except TppkitError as error:
            print(f"{error.message} [{error.code}]", error.hint)
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None) -> None:
        message = printable(message)  # it may contain untrusted text
        super().__init__(message)
        self.code = code
        self.message = message
        self.clause = clause

    @property
    def hint(self) -> str:
        """What to do, from the table of codes; empty if the code has no row."""
        row = CODES.get(self.code)
        return row.hint if row else ""

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"

    def __reduce__(self) -> tuple[object, tuple[type[TppkitError], tuple[object, ...], dict[str, object]]]:
        # Pickle restores an exception by calling its class with `args`, which would lose keyword-only arguments.
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(kind: type[TppkitError], args: tuple[object, ...], state: dict[str, object]) -> TppkitError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class FormatError(TppkitError):
    """The input does not have the expected format.

    Attributes:
        offset: offset of the fault in bytes, in a search query in characters; None if unknown.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None, offset: int | None = None) -> None:
        super().__init__(code, message, clause=clause)
        self.offset = offset


class VerificationError(TppkitError):
    """The input is well formed, but its verification fails.

    Attributes:
        findings: every finding of the check, including the one that failed; may be empty.
    """

    def __init__(
        self, code: str, message: str, *, clause: str | None = None, findings: tuple[Finding, ...] = ()
    ) -> None:
        super().__init__(code, message, clause=clause)
        self.findings = findings


class CertificateRejected(VerificationError):
    """A certificate is not trusted at the time, or does not fit its use."""


class LeafRevoked(CertificateRejected):
    """The end entity of a valid chain was revoked or is on hold. Chains that were not tried yet cannot make it good."""


class SignatureRejected(VerificationError):
    """A seal is missing or invalid."""


class ProtocolError(TppkitError):
    """One side broke the rules of an interface."""


class LocalProtocolError(ProtocolError):
    """Our request breaks the interface's rules: the client does not send it, and a server refuses it.

    Attributes:
        retry_after_s: seconds after which the same request may be allowed, or None.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(code, message, clause=clause)
        self.retry_after_s = retry_after_s


class RemoteProtocolError(ProtocolError):
    """The peer's answer breaks the interface's rules."""


class OutcomeUnknown(RemoteProtocolError):
    """The request may have been carried out: the answer belongs to another request, or follows an attempt without an answer.

    Attributes:
        status: HTTP status of the answer, which proves nothing; None if the answer could not be read.
        request_id: the id with which the request can be repeated without a second effect; empty where a repetition counts again.
    """

    def __init__(self, code: str, message: str, *, status: int | None, request_id: str) -> None:
        super().__init__(code, message)
        self.status = status
        self.request_id = request_id


class RequestRefused(ProtocolError):
    """The service answered with an error, as the interface allows.

    Attributes:
        status: HTTP status code.
        peer_code: the service's code (for example `SIGNATURE_INVALID`), or None.
        peer_text: the service's explanation, shortened, or None.
        request_id: the id of the request, or None.
    """

    def __init__(
        self, message: str, *, status: int, peer_code: str | None, peer_text: str | None, request_id: str | None
    ) -> None:
        super().__init__("request.refused", message)
        self.status = status
        self.peer_code = peer_code
        self.peer_text = peer_text
        self.request_id = request_id


class TransportError(TppkitError):
    """No answer arrived: the connection or TLS failed, or the time limit passed.

    Attributes:
        request_id: see `OutcomeUnknown.request_id`; or None.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None, request_id: str | None = None) -> None:
        super().__init__(code, message, clause=clause)
        self.request_id = request_id


class ArchiveError(TppkitError):
    """An archive of evidence cannot be opened or extended; stored records are unchanged."""


class ConfigurationError(TppkitError):
    """Settings, files or extras that cannot work."""
