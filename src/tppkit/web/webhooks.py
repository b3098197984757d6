"""Receive webhooks of the payment gateway and answer them, for ASGI and WSGI alike.

gate = WebhookGate(WebhookInbox(store, client.order), path=path)
app = CallbackMiddleware(app, gate=gate)

200: the webhook is stored. 400, 403, 408, 411 and 413: the body is not a webhook or not whole, the sender is not in the networks, the body
came too late, the length is missing or too large. 503: the webhook was not received, and should be sent again. Other paths and methods
are passed to the application.
Source: gateway document, section 6.1.
"""

from __future__ import annotations

import re
import secrets
from hmac import compare_digest
from typing import Generic, TypeVar

from tppkit._clock import Clock, utc_now
from tppkit.callbacks.inbox import Count
from tppkit.errors import ConfigurationError
from tppkit.inbox import Outcome
from tppkit.message import Message
from tppkit.web.callback_refusals import ACKNOWLEDGED, BodyGate, OnRefusal, log_refused_callback
from tppkit.web.callback_requests import CallbackPeers
from tppkit.web.sources import Answer, Source
from tppkit.web.webhook_inbox import MAX_BODY, AsyncWebhookInbox, WebhookInbox

OneInbox = TypeVar("OneInbox", bound=WebhookInbox | AsyncWebhookInbox)
_UNGUESSABLE = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*[A-Za-z0-9_-]{22,}")


def make_webhook_path(prefix: str = "/webhooks/") -> str:
    """Make an unguessable path. Store it as a secret: it is part of webhook_url, and the only proof of the sender."""
    return prefix + secrets.token_urlsafe(24)


class _WebhookGate(BodyGate, Generic[OneInbox]):
    """The common part of both gates."""

    def __init__(
        self, inbox: OneInbox, *, path: str, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
        count: Count | None = None, now: Clock = utc_now,
    ) -> None:  # fmt: skip
        super().__init__(MAX_BODY, peers=peers, on_refusal=on_refusal, count=count, now=now)
        if not _UNGUESSABLE.fullmatch(path):  # not shown: it is a secret
            raise ConfigurationError(
                "webhook.path",
                "the path does not end with 22 or more random letters and digits: take one from make_webhook_path()",
            )
        self._inbox, self._path = inbox, path.encode()

    def find(self, source: Source) -> str | None:
        """The path, if the request is a POST to it; None for any other request."""
        path, _ = source.decoded_target()
        return self._path.decode() if compare_digest(path, self._path) and source.method == "POST" else None

    def answer(self, outcome: Outcome) -> Answer:
        """Count what was stored, and return the answer."""
        self.count(outcome.value)
        return ACKNOWLEDGED


class WebhookGate(_WebhookGate[WebhookInbox]):
    """Stores webhooks in an inbox and answers them, for `CallbackMiddleware` and `WsgiCallbackMiddleware`.

    Args:
        inbox: stores the webhooks.
        path: the path as this server sees it; see `make_webhook_path`. It is compared in constant time.
        peers: the networks from which webhooks are accepted; without it, all.
        on_refusal: see `CallbackGate`.
        count: called with `stored` or `repeated`, or with `refused` or `failed` and the code of the error. See `CallbackGate`.
        now: the clock.

    Raises:
        ConfigurationError: `webhook.path`, `callback.function`.

    Example:
        app = CallbackMiddleware(app, gate=WebhookGate(WebhookInbox(store, client.order), path=path))
    """

    def receive(self, received: Message, source: Source) -> Answer:
        """Store a webhook, and return the answer.

        Args:
            received: the request.
            source: the request as the server passes it.
        """
        try:
            return self.answer(self._inbox.accept(received.body, at=self.now()))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered without details
            return self.refuse(e, source, received)


class AsyncWebhookGate(_WebhookGate[AsyncWebhookInbox]):
    """Stores webhooks in an `AsyncWebhookInbox`. Arguments and errors are those of `WebhookGate`.

    Example:
        app = CallbackMiddleware(app, gate=AsyncWebhookGate(AsyncWebhookInbox(store, client.order), path=path))
    """

    async def receive(self, received: Message, source: Source) -> Answer:
        """See `WebhookGate.receive`."""
        try:
            return self.answer(await self._inbox.accept(received.body, at=self.now()))
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered without details
            return self.refuse(e, source, received)
