"""Settings of the handlers of payments and consents."""

from __future__ import annotations

from dataclasses import dataclass, field

from tppkit.protocol.endpoint import Interface
from tppkit.protocol.psd2 import PSD2, BankRules


@dataclass(frozen=True, slots=True)
class Psd2Settings:
    """The settings of the handlers.

    Attributes:
        rules: the rules of the bank.
        approval_url: address of the approval host, without a path.
        interface: the endpoints and errors of this bank.
    """

    rules: BankRules = field(default_factory=BankRules)
    approval_url: str = ""
    interface: Interface = PSD2
