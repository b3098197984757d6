"""Reserved amounts: capture, void, the end of a period, refund, chargeback. Source: gateway document, section 3.4.

Functions return the authorisation as it is afterwards, or raise; they change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.orders import CaptureMode
from tppkit.protocol.gateway.states import AUTHORISATION, AuthorisationState, AuthorisationTrigger
from tppkit.protocol.gateway.values import read_duration

ATTEMPT_PERIOD = timedelta(minutes=30)  # section 8; default of a card transaction
CAPTURE_WINDOW = timedelta(days=5)  # section 8
ORDER_PERIOD = timedelta(days=1)  # assumption gateway-clocks
LINK_PERIOD = timedelta(days=30)  # section 8
OWN_CHECKOUT_LAG = timedelta(minutes=60)  # section 8


@dataclass(frozen=True, slots=True)
class Authorisation:
    """The state of an authorised amount, in the smallest currency unit.

    Attributes:
        amount: the authorised amount.
        capture_mode: None for a sale, which is captured from the start.
        ends_at: when a delayed amount is captured and a manual one lapses; aware UTC.
        state: whether it can still be captured.
        voided: the sum of partial voids, or the whole amount.
        captured: the captured amount.
        refunded: the refunded part of the captured amount.
        charged_back: the part that the issuer has taken back and not returned.
    """

    amount: int
    capture_mode: CaptureMode | None
    ends_at: datetime
    state: AuthorisationState = AuthorisationState.OPEN
    voided: int = 0
    captured: int = 0
    refunded: int = 0
    charged_back: int = 0

    @property
    def capturable(self) -> int:
        """The amount that can still be captured or voided, if it is open."""
        return self.amount - self.voided

    @property
    def refundable(self) -> int:
        """The captured amount that is neither refunded nor charged back."""
        return self.captured - self.refunded - self.charged_back


def ends_at(since: datetime, expiration_period: str | None, *, default: timedelta) -> datetime:
    """The end of a period, for example of a payment link with `LINK_PERIOD`."""
    return since + (read_duration(expiration_period) if expiration_period else default)


def attempt_ends_at(created: datetime, *, capture_mode: CaptureMode | None, expiration_period: str | None) -> datetime:
    """Return when an attempt expires that is not accepted (assumption gateway-clocks).

    Args:
        created: when the transaction was created.
        capture_mode: the capture mode of the transaction.
        expiration_period: that of the transaction. With a capture mode, it is the period of the authorisation instead.
    """
    return ends_at(created, expiration_period if capture_mode is None else None, default=ATTEMPT_PERIOD)


def order_ends_at(created: datetime, *, expiration_period: str | None, attempt: datetime | None) -> datetime:
    """Return when an order expires that is not paid (assumption gateway-clocks).

    Args:
        created: when the order was created.
        expiration_period: that of the order.
        attempt: the end of the attempt that the order was created with, None for an order on the hosted page.
    """
    if attempt is not None and expiration_period is None:
        return attempt
    return ends_at(created, expiration_period, default=ORDER_PERIOD)


def accept(
    amount: int, *, capture_mode: CaptureMode | None, expiration_period: str | None, at: datetime
) -> Authorisation:
    """The authorisation of a transaction that is accepted at a time (assumption gateway-clocks)."""
    end = ends_at(at, expiration_period, default=CAPTURE_WINDOW)
    if capture_mode is None:
        return Authorisation(amount, None, end, AuthorisationState.CAPTURED, captured=amount)
    return Authorisation(amount, capture_mode, end)


def settle(authorisation: Authorisation, *, at: datetime) -> Authorisation:
    """Return the authorisation at a time: a delayed amount is captured at its end, a manual one lapses."""
    if authorisation.state is not AuthorisationState.OPEN or at < authorisation.ends_at:
        return authorisation
    if authorisation.capture_mode is CaptureMode.DELAYED:
        return _moved(authorisation, AuthorisationTrigger.CAPTURED, captured=authorisation.capturable)
    return _moved(authorisation, AuthorisationTrigger.LAPSED)


def is_capturable(authorisation: Authorisation, *, at: datetime) -> bool:
    """Whether a request can capture it; a delayed one is captured automatically (assumption is-capturable)."""
    return _is_open(authorisation, at) and authorisation.capture_mode is CaptureMode.MANUAL


def capture(authorisation: Authorisation, amount: int | None = None, *, at: datetime) -> Authorisation:
    """Capture all or an amount, once; the rest is released.

    Raises:
        LocalProtocolError: `authorisation.none`, `authorisation.closed`, `authorisation.delayed`, `authorisation.amount`.
    """
    _require_open(authorisation, at)
    if authorisation.capture_mode is CaptureMode.DELAYED:
        raise LocalProtocolError(
            "authorisation.delayed", "a delayed capture is automatic", clause="gateway document 3.4 rule 3"
        )
    captured = authorisation.capturable if amount is None else amount
    _require_at_most(captured, authorisation.capturable, "authorisation.amount")
    return _moved(authorisation, AuthorisationTrigger.CAPTURED, captured=captured)


def void(authorisation: Authorisation, amount: int | None = None, *, at: datetime) -> Authorisation:
    """Release all or an amount; after a part, the rest can still be captured (assumption void-amounts).

    Raises:
        LocalProtocolError: `authorisation.none`, `authorisation.closed`, `authorisation.amount`.
    """
    _require_open(authorisation, at)
    released = authorisation.capturable if amount is None else amount
    _require_at_most(released, authorisation.capturable, "authorisation.amount", least=0 if amount is None else 1)
    whole = released == authorisation.capturable
    trigger = AuthorisationTrigger.VOIDED if whole else AuthorisationTrigger.REDUCED
    return _moved(authorisation, trigger, voided=authorisation.voided + released)


def refund(authorisation: Authorisation, amount: int) -> Authorisation:
    """Refund captured money, at least one unit.

    Raises:
        LocalProtocolError: `refund.amount`.
    """
    _require_at_most(amount, authorisation.refundable, "refund.amount", least=1)
    return replace(authorisation, refunded=authorisation.refunded + amount)


def charge_back(authorisation: Authorisation) -> Authorisation:
    """Charge back all money that is captured and not refunded.

    Raises:
        LocalProtocolError: `refund.amount`, nothing is left.
    """
    if not authorisation.refundable:
        raise LocalProtocolError("refund.amount", "no captured money is left")
    return replace(authorisation, charged_back=authorisation.charged_back + authorisation.refundable)


def reverse(authorisation: Authorisation) -> Authorisation:
    """Reverse the chargeback: the issuer returns the money.

    Raises:
        LocalProtocolError: `refund.amount`, nothing is charged back.
    """
    if not authorisation.charged_back:
        raise LocalProtocolError("refund.amount", "nothing is charged back")
    return replace(authorisation, charged_back=0)


def _is_open(authorisation: Authorisation, at: datetime) -> bool:
    return authorisation.state is AuthorisationState.OPEN and at < authorisation.ends_at


def _require_open(authorisation: Authorisation, at: datetime) -> None:
    if authorisation.capture_mode is None:
        raise LocalProtocolError(
            "authorisation.none", "the payment is a sale; use a refund", clause="gateway document 3.4 rule 4"
        )
    if not _is_open(authorisation, at):
        state = settle(authorisation, at=at).state
        raise LocalProtocolError("authorisation.closed", f"the authorisation is {state}", clause="gateway document 3.4")


def _require_at_most(amount: int, most: int, code: str, *, least: int = 0) -> None:
    if not least <= amount <= most:
        raise LocalProtocolError(code, f"the amount is {amount}, not at least {least} and at most {most}")


def _moved(
    authorisation: Authorisation, trigger: AuthorisationTrigger, *, captured: int = 0, voided: int | None = None
) -> Authorisation:
    state = AUTHORISATION.move(authorisation.state, trigger)
    return replace(
        authorisation, state=state, captured=captured, voided=authorisation.voided if voided is None else voided
    )
