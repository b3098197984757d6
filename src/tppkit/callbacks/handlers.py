"""Handlers of the application: dispatch by kind of callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tppkit._encoding import shown
from tppkit.callbacks.addresses import CallbackAddress, CallbackKind
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction

Event = TypeVar("Event")
Result = TypeVar("Result")
EventHandler = Callable[[Event, VerifiedCallback, Any], Result]
CallbackHandler = Callable[[VerifiedCallback, Any], Result]  # the second argument is the connection


def handler_by_kind(
    receiver: CallbackReceiver, *, on_access: EventHandler[AccessGranted, Result] | None = None,
    on_payment: EventHandler[Transaction, Result] | None = None, on_login: EventHandler[LoginConfirmed, Result] | None = None,
    handler: CallbackHandler[Result] | None = None,
) -> CallbackHandler[Result]:  # fmt: skip
    """Return one handler that calls the handler of the callback's kind, for `Inbox`, `AsyncInbox` and their workers.

    Args:
        receiver: the addresses.
        on_access: called with the event, the callback and the connection; so are the two that follow.
        on_payment: for outcomes of payment requests.
        on_login: for confirmed logins.
        handler: called with the callback and the connection, for every kind without a handler of its own.

    Raises:
        ConfigurationError: `callback.no-handler`, an address has a kind without a handler.

    Example:
        handler = handler_by_kind(receiver, on_access=granted, on_payment=paid)
        inbox.work(handler, at=utc_now())
    """
    given = {CallbackKind.ACCESS: on_access, CallbackKind.PAYMENT: on_payment, CallbackKind.LOGIN: on_login}
    own: Mapping[str, EventHandler[Any, Result]] = {kind: one for kind, one in given.items() if one is not None}
    for address in receiver.book.addresses:
        if address.kind not in own and handler is None:
            raise _no_handler(address)

    def handle(callback: VerifiedCallback, connection: Any) -> Result:
        one = own.get(callback.address.kind)
        if one is not None:
            return one(callback.event, callback, connection)
        if handler is None:  # the callback is another receiver's
            raise _no_handler(callback.address)
        return handler(callback, connection)

    return handle


def _no_handler(address: CallbackAddress) -> ConfigurationError:
    return ConfigurationError(
        "callback.no-handler", f"{shown(address.url)} takes callbacks of kind {address.kind}, which has no handler"
    )
