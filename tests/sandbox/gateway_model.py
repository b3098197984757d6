"""The model of an order of the payment gateway: the effects of requests, issuers and time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from test_psd2_stateful import AT

HOLD = timedelta(days=5)
MANUAL, DELAYED = "manual", "delayed"


@dataclass(eq=False)
class Paid:
    """An order as the model has it."""

    id: str
    made_at: datetime
    ends_at: datetime
    own: bool
    lag: timedelta
    mode: str | None = None
    hold: timedelta = HOLD
    first: bool = False
    attempt_id: str = ""
    attempt_ends_at: datetime | None = None
    setup_token: str = ""
    stored: bool = False
    status: str = "new"
    attempt: str = ""  # new, accepted, declined; of the latest one
    asked: bool = False
    token: str = ""
    decided_at: datetime = AT
    state: str = ""  # of the authorisation
    hold_ends_at: datetime = AT
    voided: int = 0
    captured: int = 0
    refunded: int = 0
    charged_back: int = 0
    linked: list[tuple[str, int, datetime]] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        return self.status not in ("new", "processing")

    @property
    def lags(self) -> bool:
        return self.own and not self.is_final and self.attempt != "new" and self.lag > timedelta()

    def due(self) -> tuple[datetime, str] | None:
        """What time does next."""
        events = []
        if self.attempt == "new" and self.attempt_ends_at:
            events.append((self.attempt_ends_at, "attempt"))
        if self.state == "open":
            events.append((self.hold_ends_at, "hold"))
        if self.lags:
            events.append((self.decided_at + self.lag, "lag"))
        elif not self.is_final:
            events.append((self.ends_at, "order"))
        return min(events, key=lambda one: one[0], default=None)

    def settle(self, now: datetime) -> None:
        while (due := self.due()) is not None and due[0] <= now:
            at, what = due
            if what == "attempt":
                self.decide(accepted=False, at=at)
            elif what == "lag":
                self.status = "completed" if self.attempt == "accepted" else "error"
            elif what == "order":
                self.attempt = "declined" if self.attempt == "new" else self.attempt
                self.status = "expired"
            elif self.mode == MANUAL:
                self.state = "lapsed"
            else:
                self.state, self.captured = "captured", 1000 - self.voided
                self.linked.append(("capture", self.captured, at))

    def decide(self, *, accepted: bool, at: datetime) -> None:
        """The issuer or time decides the attempt."""
        self.attempt, self.decided_at = "accepted" if accepted else "declined", at
        if accepted:
            self.hold_ends_at = at + self.hold
            self.state, self.captured = ("open", 0) if self.mode else ("captured", 1000)
        if at >= self.ends_at:
            self.status = "expired"
        elif not self.lags and (accepted or self.own):
            self.status = "completed" if accepted else "error"
