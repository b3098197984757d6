"""Login codes: a confirmed login belongs to the browser session of its code, once, over each kind of store."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from inboxes import AT, SERVICE, UUID, Case, core_url, login, new_prefix, open_case, outcome, receiver, scan
from sqlalchemy import inspect, text

from tppkit.callbacks import (
    AsyncInbox,
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    verify_callback,
)
from tppkit.callbacks.login_codes import KEPT, LIFETIME, LoginCode, LoginCodes, digest_session_id
from tppkit.errors import ConfigurationError
from tppkit.inbox import InboxError, Outcome
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import LoginPermission, LoginRequest
from tppkit.qr import parse_login

SESSION, OTHER = "a-random-session-id", "another-random-session-id"
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return open_case(request.param, tmp_path, request)


@pytest.fixture
def codes(case: Case) -> LoginCodes:
    return ready(case.inbox())


def ready(inbox: Inbox, **settings: Any) -> LoginCodes:
    codes = LoginCodes(inbox, name="Bookshop", perm=(LoginPermission.NAME,), prefix=new_prefix("codes"), **settings)
    codes.create_tables()
    return codes


def token_of(code: LoginCode) -> str:
    assert code.text.startswith("LOGIN:tpp.example/login/%C5%BE/")
    return parse_login(code.text).url.rpartition("/")[2]


def scanned(codes: LoginCodes, code: LoginCode, *, after: timedelta = MINUTE) -> LoginRequest:
    """The answer to a scan of a code."""
    return codes.answer(verify_callback(scan("g-1", token=token_of(code)), at=AT + after, receiver=receiver()))


def is_known(codes: LoginCodes, code: LoginCode) -> bool:
    try:
        return scanned(codes, code).code is not None
    except CallbackRejected:
        return False


def logged_in(
    case: Case, codes: LoginCodes, token: str, *, number: int = 1, after: timedelta = MINUTE, fails: bool = False
) -> str | None:
    """The session of a login that comes, which is also its effect."""
    found: list[str | None] = []

    def handler(callback: Any, connection: Any) -> None:
        found.append(codes.match(callback, connection))
        case.write(connection, str(found[0]))
        if fails:
            raise RuntimeError("of the application")

    case.inbox().handle(login(f"l-{number}", token=token), handler, at=AT + after)
    return found[0]


def test_a_login_belongs_to_the_session_of_its_code(case, codes):
    code, other = codes.make(SESSION, at=AT), codes.make(OTHER, at=AT)
    assert code.expires_at == AT + LIFETIME
    assert scanned(codes, code) == LoginRequest(name="Bookshop", perm=(LoginPermission.NAME,), code=code.code)
    scanned(codes, other)
    assert logged_in(case, codes, token_of(code)) == digest_session_id(SESSION)
    assert logged_in(case, codes, token_of(other), number=2) == digest_session_id(OTHER)
    assert case.effects() == [digest_session_id(SESSION), digest_session_id(OTHER)]


def test_the_second_login_has_no_session_and_its_code_no_second_scan(case, codes):
    code = codes.make(SESSION, at=AT)
    assert scanned(codes, code) == scanned(codes, code)  # a repetition
    logged_in(case, codes, token_of(code))
    assert logged_in(case, codes, token_of(code), number=2) is None
    with pytest.raises(CallbackRejected, match=r"callback\.login-code"):
        scanned(codes, code)


def test_a_login_without_a_scan_or_a_code_has_no_session(case, codes):
    code = codes.make(SESSION, at=AT)
    assert logged_in(case, codes, token_of(code)) is None
    assert logged_in(case, codes, UUID, number=2) is None


@pytest.mark.parametrize(("after", "counts"), [(LIFETIME - MINUTE, True), (LIFETIME, False)])
def test_a_code_counts_until_it_expires(after, counts, case, codes):
    code = codes.make(SESSION, at=AT)
    scanned(codes, code)
    assert (logged_in(case, codes, token_of(code), after=after) is not None) is counts
    late = codes.make(SESSION, at=AT)
    if counts:
        scanned(codes, late, after=after)
    else:
        with pytest.raises(CallbackRejected, match=r"callback\.login-code"):
            scanned(codes, late, after=after)


def test_what_a_handler_undoes_is_matched_again(case, codes):
    code = codes.make(SESSION, at=AT)
    scanned(codes, code)
    with pytest.raises(RuntimeError):
        logged_in(case, codes, token_of(code), fails=True)
    assert case.effects() == []
    assert logged_in(case, codes, token_of(code)) == digest_session_id(SESSION)  # the same callback, repeated


def test_a_login_that_came_in_time_may_wait_for_a_worker(case, codes):
    code = codes.make(SESSION, at=AT)
    scanned(codes, code)
    inbox, found = case.inbox(), []
    inbox.accept(login("l-1", token=token_of(code)), at=AT + MINUTE)
    codes.make(OTHER, at=AT + timedelta(days=1))
    inbox.work(lambda callback, db: found.append(codes.match(callback, db)), at=AT + timedelta(days=1))
    assert found == [digest_session_id(SESSION)]


def test_of_logins_at_once_one_has_the_session(request, tmp_path):
    case = open_case("postgresql", tmp_path, request)
    codes = ready(case.inbox())
    code = codes.make(SESSION, at=AT)
    scanned(codes, code)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: logged_in(case, codes, token_of(code), number=number), range(8)))
    assert sorted(map(str, found)) == sorted(["None"] * 7 + [digest_session_id(SESSION)])


def test_other_callbacks_match_no_code(case, codes):
    code = codes.make(SESSION, at=AT)
    with case.store.engine.begin() as db:
        for one in (scan("g-2", token=token_of(code)), outcome("p-1")):
            callback = verify_callback(one, at=AT, receiver=receiver())
            assert codes.match(callback, db) is None
    with pytest.raises(CallbackRejected):
        codes.answer(verify_callback(outcome("p-1"), at=AT, receiver=receiver()))


def test_no_session_id_is_stored(case, codes):
    codes.make(SESSION, at=AT)
    with case.store.engine.connect() as db:
        tables = [name for name in inspect(db).get_table_names() if name.endswith("codes")]
        stored = [str(row) for name in tables for row in db.execute(text(f'SELECT * FROM "{name}"'))]
    assert any(digest_session_id(SESSION) in row for row in stored)
    assert not any(SESSION in row for row in stored)


def test_making_codes_forgets_those_that_expired_some_days_before(codes):
    made = [codes.make(SESSION, at=AT) for _ in range(11)]
    codes.make(SESSION, at=AT + LIFETIME + KEPT - MINUTE)
    assert scanned(codes, made[0])
    for left in (1, 0):  # a batch is bounded
        codes.make(SESSION, at=AT + LIFETIME + KEPT)
        assert sum(is_known(codes, one) for one in made) == left


def test_every_code_is_another_and_shows_no_token(codes):
    made = [codes.make(SESSION, at=AT) for _ in range(20)]
    assert len({token_of(one) for one in made}) == 20
    assert all(one.code is not None and len(one.code) == 4 and one.code.isdecimal() for one in made)
    assert token_of(made[0]) not in repr(made[0])


def test_a_code_may_show_nothing_to_compare(case):
    codes = ready(case.inbox(), shows_code=False, lifetime=MINUTE)
    code = codes.make(SESSION, at=AT)
    assert (code.code, scanned(codes, code, after=MINUTE / 2).code, code.expires_at) == (None, None, AT + MINUTE)


def test_settings_that_cannot_work_are_refused(case):
    inbox = case.inbox()
    key = CallbackKey("live-2026", SERVICE.public_key())
    fixed = Inbox(
        CallbackReceiver([CallbackAddress("https://tpp.example/login", CallbackKind.LOGIN)], keys=[key]), case.store
    )
    for code, settings, of in (
        ("login.setting", {"name": ""}, inbox),
        ("login.setting", {"name": "Bookshop", "lifetime": timedelta(0)}, inbox),
        ("login.address", {"name": "Bookshop"}, fixed),
        ("login.address", {"name": "Bookshop", "address": fixed.receiver.book.addresses[0]}, inbox),
    ):
        with pytest.raises(ConfigurationError) as refused:
            LoginCodes(of, **settings)  # type: ignore[arg-type]
        assert refused.value.code == code
    with pytest.raises(ConfigurationError, match=r"login\.session"):
        digest_session_id("short")


def test_without_its_table_nothing_is_answered(case):
    codes = LoginCodes(case.inbox(), name="Bookshop", prefix=new_prefix("absent"))
    with pytest.raises(InboxError, match=r"inbox\.unavailable"):
        codes.make(SESSION, at=AT)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_tasks_use_codes_through_their_inbox(kind, tmp_path, request):
    async def main() -> None:
        if kind == "sqlite":
            store = InboxStore(f"sqlite:///{tmp_path}/inbox.sqlite")
        else:
            url = core_url(request.getfixturevalue("postgresql_url"))
            store = InboxStore(url, prefix=new_prefix("async"))
        inbox = AsyncInbox(receiver(), store)
        codes = LoginCodes(inbox.inbox, name="Bookshop", prefix=new_prefix("codes"))
        await inbox.run(store.create_tables)
        await inbox.run(codes.create_tables)
        made = await asyncio.gather(*(inbox.run(codes.make, SESSION, at=AT) for _ in range(8)))
        found: list[str | None] = []

        async def handler(callback: Any, connection: Any) -> None:
            found.append(await codes.match_async(callback, connection))

        for number, code in enumerate(made):
            callback = verify_callback(scan("g-1", token=token_of(code)), at=AT, receiver=receiver())
            assert (await inbox.run(codes.answer, callback)).code == code.code
            both = [
                inbox.handle(login(f"l-{number}-{letter}", token=token_of(code)), handler, at=AT) for letter in "ab"
            ]
            receipts = await asyncio.gather(*both)
            assert {receipt.outcome for receipt in receipts} == {Outcome.APPLIED}
        assert sorted(found, key=str) == sorted([None, digest_session_id(SESSION)] * 8, key=str)
        await inbox.run(store.close)

    asyncio.run(main())
