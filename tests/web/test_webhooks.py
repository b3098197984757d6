"""What the gate of webhooks answers, and what it keeps secret."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import BytesIO
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from refusals import refused
from tppkit._clock import utc_now
from tppkit.callbacks import parse_networks
from tppkit.errors import ConfigurationError, TransportError
from tppkit.inbox import Retries
from tppkit.inbox.store import MemoryStore
from tppkit.protocol.gateway import Order
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.web import (
    CallbackPeers,
    WebhookGate,
    WebhookInbox,
    WebhookSettings,
    WsgiCallbackMiddleware,
    make_webhook_path,
)

PATH, ORDER = make_webhook_path(), str(uuid4()).encode()


def body() -> bytes:
    return StatusChanged(event="status_changed", order_id=str(uuid4()), project_id=str(uuid4())).to_wire()


def no_gateway(order_id: str) -> Order:
    pytest.fail(f"{order_id} was fetched before the answer")


def rest(environ: Any, start_response: Any) -> list[bytes]:
    start_response("404 Not Found", [])
    return [b""]


class Receiver:
    """A server of WSGI without a network."""

    def __init__(
        self, *, store: MemoryStore | None = None, max_waiting: int = 10, peers: CallbackPeers | None = None,
        fetch: Callable[[str], Order] = no_gateway,
    ) -> None:  # fmt: skip
        self.counted: list[tuple[str, str]] = []
        self.inbox = WebhookInbox(store or MemoryStore(), fetch, settings=WebhookSettings(max_waiting=max_waiting))
        gate = WebhookGate(self.inbox, path=PATH, peers=peers, count=lambda *said: self.counted.append(said[:2]))
        self._app = WsgiCallbackMiddleware(rest, gate=gate)

    def post(self, sent: bytes, *, path: str = PATH, method: str = "POST", **environ: Any) -> int:
        statuses = list[int]()
        given = {
            "REQUEST_METHOD": method, "PATH_INFO": path, "RAW_URI": path, "CONTENT_LENGTH": str(len(sent)), "wsgi.input": BytesIO(sent),
            "REMOTE_ADDR": "203.0.113.7", **environ,
        }  # fmt: skip
        self._app(given, lambda status, _: statuses.append(int(status[:3])))
        return statuses[0]


def test_a_webhook_is_stored_and_counted_and_the_gateway_is_not_called():
    receiver, sent = Receiver(), body()
    assert [receiver.post(sent), receiver.post(sent)] == [200, 200]
    assert receiver.counted == [("stored", ""), ("repeated", "")]


NO_WEBHOOKS = (
    b"order_id=1", b"\x1f\x8b", b"\xff", b"", b"{}", b'{"event": "status_changed", "order_id": "%s"}' % ORDER,
    b'{"event": "status_changed", "order_id": "A-1", "project_id": "%s"}' % ORDER, b"[" * 4096,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        *(({"path": path}, 404) for path in (PATH[:-1] + "~", PATH + "/", PATH.upper())),
        ({"method": "GET"}, 404),
        *(({"sent": sent}, 400) for sent in NO_WEBHOOKS),
        ({"sent": b" " * 4097}, 413),
        ({"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}, 400),
    ],
)
def test_what_is_not_a_webhook_is_refused(changed, status):
    assert Receiver().post(**{"sent": body(), **changed}) == status


def test_another_network_is_refused_whatever_it_says_of_itself():
    receiver = Receiver(peers=CallbackPeers(parse_networks(["198.51.100.0/24"])))
    assert receiver.post(body()) == 403
    assert receiver.post(body(), HTTP_X_FORWARDED_FOR="198.51.100.1") == 403
    assert receiver.post(body(), REMOTE_ADDR="198.51.100.1") == 200


def test_the_gateway_is_to_repeat_a_webhook_when_too_many_wait_or_the_store_fails():
    full = Receiver(max_waiting=1)
    assert [full.post(body()), full.post(body())] == [200, 503]
    assert full.counted[1] == ("failed", "inbox.full")
    store = MemoryStore()
    broken = Receiver(store=store)
    store._sql.metadata.drop_all(store.engine)
    assert broken.post(body()) == 503


def test_webhooks_are_answered_while_the_gateway_hangs():
    asked, hung_up, sent = Event(), Event(), body()

    def hangs(_: str) -> Order:
        asked.set()
        hung_up.wait(30)
        raise TransportError("transport.timeout", "no answer")

    receiver = Receiver(fetch=hangs)
    receiver.post(sent)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(receiver.inbox.work, lambda *_: None, at=utc_now(), limit=1)
        assert asked.wait(10)
        began = time.monotonic()
        assert [receiver.post(sent), receiver.post(body())] == [200, 200]
        assert time.monotonic() - began < 4  # as long as the gateway waits
        assert not working.done()
        hung_up.set()


@pytest.mark.parametrize(
    "settings",
    [
        {"first_pause": timedelta(hours=2)},
        {"longest_pause": timedelta(seconds=1)},
        {"unknown_for": timedelta()},
        {"retries": Retries(first=timedelta(minutes=3), attempts=3)},
        {"give_up_after": -timedelta(1)},
        {"lease": timedelta()},
        {"max_waiting": 0},
        {"environment": ""},
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    with refused(ConfigurationError, "inbox.setting"):
        WebhookSettings(**settings)


def test_no_log_has_the_path(caplog):
    with caplog.at_level(logging.DEBUG):
        Receiver().post(b"{}")
        Receiver().post(b" " * 5000)
    assert len(caplog.records) >= 2
    assert PATH not in caplog.text


@pytest.mark.parametrize(
    "path", ["", "webhooks", "/webhooks/", "/webhooks/short", "/" + "a" * 22 + "?x", "/" + "ž" * 30]
)
def test_a_path_that_can_be_guessed_is_rejected_as_a_setting(path):
    with refused(ConfigurationError, "webhook.path"):
        WebhookGate(WebhookInbox(MemoryStore(), no_gateway), path=path)
