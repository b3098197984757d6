"""The payments of a ledger, compared with those that records name, in both directions.

The ledger is a CSV file in UTF-8 with a header, a column `payment_id` and commas. It is read twice, and its ids are kept as hashes of 16
bytes.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator
from typing import TextIO

from tppkit._files import FilePath, as_path
from tppkit._text import printable
from tppkit.errors import Finding, FormatError, Severity

COLUMN = "payment_id"
_MAX_LINE = 1 << 16
_LISTED = 20


class Ledger:
    """Payments, and which of them records name.

        ledger = Ledger("payments.csv")
        findings = [*ledger.compare(["e4c8…"])]

    Args:
        path: the CSV file.

    Raises:
        FormatError: `file.unreadable`; `ledger.malformed`.
    """

    def __init__(self, path: FilePath) -> None:
        self._path = as_path(path)
        self._absent = {_short(payment) for payment in self._payments()}  # payments that no record has named yet

    def compare(self, named: Iterable[str]) -> Iterator[Finding]:
        """Compare the payments with those that records name; each may be named more than once.

        Raises:
            FormatError: as this class.
        """
        found: set[bytes] = set()
        unknown: dict[bytes, str] = {}
        others: set[bytes] = set()
        for payment in named:
            short = _short(payment)
            if short in self._absent:
                self._absent.discard(short)
                found.add(short)
            elif short not in found and short not in unknown:
                if len(unknown) < _LISTED:
                    unknown[short] = payment
                else:
                    others.add(short)
        if unknown:
            count = len(unknown) + len(others)
            message = f"{_payments(count)} accepted by records {_are(count)} not in {self._path}: {_list(unknown.values(), count)}"
            yield Finding("ledger.unknown-payment", Severity.ERROR, message)
        if self._absent:
            count, first = len(self._absent), list[str]()
            for payment in self._payments():
                if len(first) == _LISTED:
                    break
                if _short(payment) in self._absent and payment not in first:
                    first.append(payment)
            message = f"{_payments(count)} of {self._path} {_are(count)} in no accepted record: {_list(first, count)}"
            yield Finding("ledger.no-record", Severity.ERROR, message)

    def _payments(self) -> Iterator[str]:
        try:
            with open(self._path, encoding="utf-8-sig", newline="") as file:
                rows = csv.reader(_lines(file), strict=True)
                header = next(rows, [])
                if header.count(COLUMN) != 1:
                    raise FormatError(
                        "ledger.malformed",
                        f"the first line of {self._path} does not name one column {COLUMN}, with commas",
                    )
                place = header.index(COLUMN)
                for row in rows:
                    if not row:  # an empty line
                        continue
                    if len(row) != len(header) or not row[place]:
                        raise FormatError(
                            "ledger.malformed",
                            f"line {rows.line_num} of {self._path} has no {COLUMN}, or not {len(header)} cells",
                        )
                    yield row[place]
        except OSError as e:
            raise FormatError("file.unreadable", f"{self._path} cannot be read: {e.strerror}") from e
        except (csv.Error, UnicodeDecodeError) as e:
            raise FormatError("ledger.malformed", f"{self._path} is not CSV in UTF-8: {e}") from e


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_MAX_LINE + 1):
        if len(line) > _MAX_LINE:
            raise FormatError("ledger.malformed", f"{file.name} has a line of more than {_MAX_LINE} characters")
        yield line


def _short(payment: str) -> bytes:
    return hashlib.sha256(payment.encode("utf-8", "surrogatepass")).digest()[:16]


def _payments(count: int) -> str:
    return "1 payment" if count == 1 else f"{count} payments"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _list(payments: Iterable[str], count: int) -> str:
    listed = [printable(payment)[:80] for payment in payments]
    return ", ".join([*listed, "…"] if count > len(listed) else listed)
