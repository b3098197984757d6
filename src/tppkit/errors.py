"""Every exception of tppkit, and the finding that checks report.

    TppkitError                    code, message, hint
    ├── FormatError                not in the format that was asked for
    ├── VerificationError          well formed, but it does not hold; carries findings
    │   ├── CallbackRejected       a callback or login GET of the service does not hold
    │   ├── CertificateRejected    a certificate is not believed, or not fit for its use
    │   └── SignatureRejected      a seal does not hold
    ├── ProtocolError              one side broke the rules of an interface
    │   ├── LocalProtocolError     ours: the request would not have been allowed
    │   ├── RemoteProtocolError    theirs: the answer is not what the interface promises
    │   │   └── OutcomeUnknown     the answer is not of this request, which may have been carried out
    │   │       └── OrderOutcomeUnknown  the payment gateway: it is not known whether an order was created
    │   └── RequestRefused         theirs, by the rules: an error answer with status and codes
    │       ├── Unauthorized       the legacy interface: no such key, or no such access (401)
    │       └── AccountUnknown     the legacy interface: no such account (400)
    ├── TransportError             no answer: connection, TLS or time
    ├── ArchiveError               kept evidence cannot be opened or appended to
    ├── InboxError                 the inbox's store, or what it asks, fails: nothing may be acknowledged
    └── ConfigurationError         settings, files or extras that cannot work

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


def _no_values() -> Mapping[str, str]:
    return MappingProxyType({})


class Severity(StrEnum):
    """How much a finding weighs: only an error makes a check fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        code: stable dotted code, a row of `tppkit.codes.CODES`.
        severity: `error` makes the check fail; `warning` and `notice` do not.
        message: one sentence for people, naming the values.
        clause: the rule it rests on, or None.
        values: the values that were compared, by name.
        offset: byte offset in the DER of the certificate or extension value where it was seen, or None.
    """

    code: str
    severity: Severity
    message: str
    clause: str | None = None
    values: Mapping[str, str] = field(default_factory=_no_values, hash=False)
    offset: int | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # Read-only mappings cannot be pickled, and findings travel between worker processes.
        state = (self.code, self.severity, self.message, self.clause, dict(self.values), self.offset)
        return _restore_finding, state


def _restore_finding(
    code: str, severity: Severity, message: str, clause: str | None, values: dict[str, str], offset: int | None
) -> Finding:
    return Finding(code, severity, message, clause, MappingProxyType(values), offset)


def code_of(error: BaseException) -> str:
    """The code of an error of tppkit, or the name of any other class; for logs and counters, as messages may hold personal data."""
    return error.code if isinstance(error, TppkitError) else type(error).__qualname__[:100]


class TppkitError(Exception):
    """Base of every exception that tppkit raises on purpose.

    Attributes:
        code: stable dotted code.
        message: what is wrong, for people.
        clause: the rule it rests on, or None.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None) -> None:
        message = printable(message)  # it may name what a stranger sent
        super().__init__(message)
        self.code = code
        self.message = message
        self.clause = clause

    @property
    def hint(self) -> str:
        """What to do about it, from the table of codes; empty when the code has no row."""
        row = CODES.get(self.code)
        return row.mend if row else ""

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled by calling the class with `args`, which knows no keyword-only arguments.
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(kind: type[TppkitError], args: tuple[object, ...], state: dict[str, object]) -> TppkitError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class FormatError(TppkitError):
    """The input is not in the format that was asked for.

    Attributes:
        offset: offset of the fault where it is known, else None; in bytes, in a search query in characters.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None, offset: int | None = None) -> None:
        super().__init__(code, message, clause=clause)
        self.offset = offset


class VerificationError(TppkitError):
    """Well formed, but it does not hold.

    Attributes:
        findings: everything the check reported, the failing one included; may be empty.
    """

    def __init__(
        self, code: str, message: str, *, clause: str | None = None, findings: tuple[Finding, ...] = ()
    ) -> None:
        super().__init__(code, message, clause=clause)
        self.findings = findings


class CallbackRejected(VerificationError):
    """A callback or login GET is malformed, breaks a rule, or nobody trusted signed it."""


class CertificateRejected(VerificationError):
    """A certificate is not believed at the time, or does not fit its use."""


class SignatureRejected(VerificationError):
    """A seal is missing or does not hold."""


class ProtocolError(TppkitError):
    """One side broke the rules of an interface."""


class LocalProtocolError(ProtocolError):
    """Ours: the request would break the interface's rules, so it was not sent.

    Attributes:
        retry_after_s: the same request may be allowed after so many seconds, or None.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(code, message, clause=clause)
        self.retry_after_s = retry_after_s


class RemoteProtocolError(ProtocolError):
    """Theirs: the answer is not what the interface promises."""


class OutcomeUnknown(RemoteProtocolError):
    """No answer tells whether the request was carried out: it is not the request's, or follows an attempt without an answer.

    Attributes:
        status: HTTP status of the answer, which proves nothing; None if the answer could not be read.
        request_id: names the request, so that sending it again with the same one does nothing twice: its X-Request-ID (within the
            hour), or its uuid or access token in the legacy interface. Empty at the payment gateway, where a repetition counts again.
    """

    def __init__(self, code: str, message: str, *, status: int | None, request_id: str) -> None:
        super().__init__(code, message)
        self.status = status
        self.request_id = request_id


class OrderOutcomeUnknown(OutcomeUnknown):
    """The answer to the creation of an order was lost; the message says what the gateway was asked then, and what to do.

    Attributes:
        found: the orders with the request's merchant_order_id (`protocol.gateway.Order`), some perhaps of earlier requests. Empty in a
            pickled copy, as orders can have card data.
    """

    def __init__(self, code: str, message: str, *, status: int | None, found: tuple[Any, ...] = ()) -> None:
        super().__init__(code, message, status=status, request_id="")
        self.found = found

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_error, (type(self), self.args, {**self.__dict__, "found": ()})


class RequestRefused(ProtocolError):
    """The service answered with an error, as the interface allows.

    Attributes:
        status: HTTP status code.
        peer_code: the code the service gave (for example `SIGNATURE_INVALID`), or None.
        peer_text: the service's explanation, shortened, or None.
        request_id: the X-Request-ID of the request, or its uuid or access token in the legacy interface, or None.
    """

    def __init__(
        self, message: str, *, status: int, peer_code: str | None, peer_text: str | None, request_id: str | None
    ) -> None:
        super().__init__("request.refused", message)
        self.status = status
        self.peer_code = peer_code
        self.peer_text = peer_text
        self.request_id = request_id


class Unauthorized(RequestRefused):
    """The legacy interface answered 401: the API key is not this service's, or the token gives no such access, yet or any more."""


class AccountUnknown(RequestRefused):
    """The legacy interface answered 400 for an account that it does not know, or without a code."""


class TransportError(TppkitError):
    """No answer arrived: the connection, TLS or the time limit failed.

    Attributes:
        request_id: what `OutcomeUnknown.request_id` is, or None.
    """

    def __init__(self, code: str, message: str, *, clause: str | None = None, request_id: str | None = None) -> None:
        super().__init__(code, message, clause=clause)
        self.request_id = request_id


class ArchiveError(TppkitError):
    """Kept evidence cannot be opened or appended to; nothing that was stored is changed."""


class InboxError(TppkitError):
    """The inbox's store, or what it asks for a time, fails: the callback must not be acknowledged, so that it is repeated."""


class ConfigurationError(TppkitError):
    """Settings, files or extras that cannot work."""
