"""Settings of the bank for payments and consents."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class BankRules:
    """The rules of this bank; each is an assumption row.

    Attributes:
        inactivity: time without activity after which an undecided payment or consent expires.
        instant_execution: duration of an execution on the instant rail.
        normal_execution: duration of an execution as a normal transfer.
        instant_cap: highest instant amount in EUR.
        instant_unreachable: IBAN countries without instant payments; `POST /instant` overrides it.
        technical_validation: whether payments that the customer opens pass through ACTC.
    """

    inactivity: timedelta = timedelta(seconds=300)
    instant_execution: timedelta = timedelta(seconds=10)
    normal_execution: timedelta = timedelta(hours=1)
    instant_cap: Decimal = Decimal("100000.00")
    instant_unreachable: frozenset[str] = frozenset()
    technical_validation: bool = False


@dataclass(frozen=True, slots=True)
class Psd2Settings:
    """The settings of the handlers.

    Attributes:
        rules: the rules of the bank.
        approval_url: address of the approval host, without a path.
    """

    rules: BankRules = field(default_factory=BankRules)
    approval_url: str = ""
