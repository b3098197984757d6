"""What a failing handler or a locked store reports of a callback: no personal data."""

from __future__ import annotations

import sqlite3

import pytest
from inboxes import AT, UUID, received, receiver

from reported import reported
from tppkit.callbacks import Inbox
from tppkit.inbox.store import InboxStore

SECRETS = ("LT121000011101001000", "Ona Onaitė", "+37060000000")
BODY = (
    '{"id":"t1","ver":1,"timeStamp":0,"tlc":"posted","acc":"LT121000011101001000","name":"Ona Onaitė","msg":"+37060000000",'
    '"amount":["EUR-12.50"]}'
)


@pytest.fixture
def store(tmp_path):
    store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite", wait_s=0.2)
    store.create_tables()
    yield store
    store.close()


def fails(*_: object) -> None:
    raise RuntimeError("a handler fails")


def require_silence(error: BaseException) -> None:
    escaped = [ascii(secret)[1:-1] for secret in SECRETS]
    found = [line for line in reported(error) if any(secret in line for secret in (*SECRETS, *escaped))]
    assert not found


def test_a_failing_handler_reports_no_personal_data(store):
    with pytest.raises(RuntimeError) as error:
        Inbox(receiver(), store).handle(received("r-1", f"/cb/{UUID}", BODY.encode()), fails, at=AT)
    require_silence(error.value)


@pytest.mark.parametrize("name", ["accept", "handle", "work"])
def test_a_locked_store_reports_no_personal_data(name, store, tmp_path):
    inbox, call = Inbox(receiver(), store), received("r-1", f"/cb/{UUID}", BODY.encode())
    inbox.accept(received("r-0", f"/cb/{UUID}", BODY.replace("t1", "t0").encode()), at=AT)
    other = sqlite3.connect(tmp_path / "inbox.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    steps = {
        "accept": lambda: inbox.accept(call, at=AT),
        "handle": lambda: inbox.handle(call, fails, at=AT),
        "work": lambda: inbox.work(fails, at=AT),
    }
    with pytest.raises(Exception, match=r"inbox\.unavailable") as error:
        steps[name]()
    other.close()
    require_silence(error.value)
