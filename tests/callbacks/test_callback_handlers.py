"""One handler for each kind of callback, with the inbox and its workers."""

from __future__ import annotations

import asyncio

import pytest
from inboxes import AT, grant, login, outcome, receiver

from tppkit.callbacks import AsyncInbox, Inbox, handler_by_kind
from tppkit.errors import ConfigurationError
from tppkit.inbox.store import MemoryStore

CALLS = (grant("r-1"), outcome("r-2"), login("r-3"))


def test_each_kind_goes_to_its_handler_with_event_callback_and_connection():
    seen = []
    handler = handler_by_kind(
        receiver(),
        on_access=lambda event, callback, db: seen.append(("access", event.exp, callback.request_id, db is None)),
        on_payment=lambda event, callback, db: seen.append(("payment", event.tlc, callback.request_id, db is None)),
        on_login=lambda event, callback, db: seen.append(("login", event.id, callback.request_id, db is None)),
    )
    inbox = Inbox(receiver(), MemoryStore())
    for one in CALLS:
        inbox.accept(one, at=AT)
    inbox.work(handler, at=AT)
    assert seen == [
        ("access", "2026-12-01 00:00:00", "r-1", False),
        ("payment", "posted", "r-2", False),
        ("login", 7, "r-3", False),
    ]


def test_a_coroutine_function_for_one_kind_and_another_for_the_rest_are_awaited():
    seen = []

    async def paid(event, callback, db):
        seen.append(event.tlc)

    async def rest(callback, db):
        seen.append(callback.address.kind.value)

    async def run():
        inbox = AsyncInbox(receiver(), MemoryStore())
        for one in CALLS:
            await inbox.handle(one, handler_by_kind(receiver(), on_payment=paid, handler=rest), at=AT)

    asyncio.run(run())
    assert seen == ["access", "posted", "login"]


def test_an_address_of_a_kind_without_a_handler_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match=r"tpp\.example/login") as refused:
        handler_by_kind(receiver(), on_access=print, on_payment=print)
    assert refused.value.code == "callback.no-handler"
