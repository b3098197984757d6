"""Log lines of the gates, with structured fields, and a handler that limits lines that repeat."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field

from tppkit._text import printable

LOG = logging.getLogger("tppkit.web")
_MAX_METHOD, _MAX_TARGET, _MAX_PEER = 32, 2048, 64
_MAX_KEYS, _MAX_IDS = 1024, 100

Fields = Mapping[str, str]
Key = Callable[[logging.LogRecord], Hashable | None]


def make_fields(
    *, interface: str, method: str, target: str, peer: str, code: str = "", request_id: str = "", organisation: str = ""
) -> Fields:
    """Return the structured fields of a log line about a request; each gate has the same.

    Args:
        interface: name of the interface.
        method: HTTP method as received.
        target: path as received, without secrets; a query is removed.
        peer: address of the client.
        code: code of the error; empty if the request was admitted.
        request_id: the id, if it is well-formed.
        organisation: organizationIdentifier of the caller, if its certificate proved it.
    """
    return {
        "request_id": request_id,
        "organisation": printable(organisation),
        "code": code,
        "method": _safe(method, _MAX_METHOD),
        "target": _safe(target.partition("?")[0], _MAX_TARGET),
        "peer": _safe(peer, _MAX_PEER),
        "interface": interface,
    }


def _safe(text: str, limit: int) -> str:
    return printable(text[:limit])[:limit]


def write_line(level: int, fields: Fields, text: str, *args: object, error: BaseException | None = None) -> None:
    """Write a line to the logger `tppkit.web`, with fields as attributes of its record.

    Args:
        level: of `logging`.
        fields: see `make_fields`.
        text: a format.
        args: of the format.
        error: an exception whose traceback is written.
    """
    if not LOG.isEnabledFor(level):
        return
    file, line, function, _ = LOG.findCaller(stacklevel=2)
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = LOG.makeRecord(LOG.name, level, file, line, text, args, exc_info, function)
    # Not by `extra`, which raises KeyError if the application's record factory has set one of these names.
    vars(record).update(fields)
    LOG.handle(record)


@dataclass(slots=True)
class _Period:
    """Records with one key since a time."""

    begin: float
    passed: int = 0
    held: int = 0
    first_held: logging.LogRecord | None = None
    request_ids: list[str] = field(default_factory=list)


def _cause(record: logging.LogRecord) -> Hashable | None:
    if record.name != LOG.name or not getattr(
        record, "code", ""
    ):  # another library may have the same names for other things
        return None
    return tuple(getattr(record, name, "") for name in ("code", "peer", "organisation"))


class LimitedHandler(logging.Handler):
    """Passes records on to another handler, but of those that repeat only the first ones, and each traceback only once in a period.

    Records with the same key are counted beyond that. When their period is over, the next record of any kind, or `close`, writes one
    line with their number and up to 100 of their request ids, also in its attributes `held_back` and `request_ids`; further ids are lost.
    At most 1,024 keys are watched; a further one ends the period of the oldest. `Count` gets every request.

    Args:
        target: writes the records.
        key: returns what repeated records have in common, or None for a record without limit. The default is code, peer and
            organisation of the gates' refusals and failures; other records have no limit.
        most: how many records with the same key are passed on in a period.
        period_s: seconds of a period, by the records' own times.

    Example:
        logging.getLogger("tppkit.web").addHandler(LimitedHandler(logging.StreamHandler()))
    """

    def __init__(self, target: logging.Handler, *, key: Key = _cause, most: int = 5, period_s: float = 60.0) -> None:
        super().__init__()
        self.target, self._key, self._most, self._period_s = target, key, most, period_s
        self._periods: OrderedDict[Hashable, _Period] = OrderedDict()  # the oldest first

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        """Set the formatter of the target."""
        self.target.setFormatter(fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on, or count it. Other handlers get it unchanged."""
        try:
            self._emit(record)
        except Exception:  # noqa: BLE001  # a malformed format, as in the handlers of the standard library
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        self._end_periods(record.created)
        if (error := record.exc_info and record.exc_info[1]) and not self._passes(
            (type(error), getattr(error, "code", "")), record.created, 1
        ):
            record = _copy(record)
        key = self._key(record)
        if key is None or self._passes(key, record.created, self._most):
            self._pass_on(record)
            return
        period = self._periods[key]
        period.held += 1
        if period.first_held is None:
            period.first_held = _copy(record)
        if (request_id := getattr(record, "request_id", "")) and len(period.request_ids) < _MAX_IDS:
            period.request_ids.append(str(request_id))

    def close(self) -> None:
        """Write the numbers of the records that were held back. The target stays open."""
        with self.lock or nullcontext():
            while self._periods:
                self._end_oldest()
        super().close()

    def _passes(self, key: Hashable, at: float, most: int) -> bool:
        if (period := self._periods.get(key)) is None:
            if len(self._periods) >= _MAX_KEYS:
                self._end_oldest()
            period = self._periods[key] = _Period(at)
        period.passed += 1
        return period.passed <= most

    def _end_periods(self, at: float) -> None:
        # The clock may have been set back.
        while self._periods and not 0 <= at - next(iter(self._periods.values())).begin < self._period_s:
            self._end_oldest()

    def _end_oldest(self) -> None:
        _, period = self._periods.popitem(last=False)
        if (record := period.first_held) is not None:
            ids = f"; request ids: {' '.join(period.request_ids)}" if period.request_ids else ""
            record.msg = f"{period.held} more lines such as this were held back: {record.msg}{ids}"
            vars(record).update(held_back=period.held, request_ids=period.request_ids)
            self._pass_on(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        if record.levelno >= self.target.level:
            self.target.handle(record)


def _copy(record: logging.LogRecord) -> logging.LogRecord:
    """Return a record without a traceback, and with its message in place of arguments, which could hold a request."""
    copied = copy(record)
    copied.msg, copied.args = record.getMessage(), ()
    copied.exc_info = copied.exc_text = None
    return copied
