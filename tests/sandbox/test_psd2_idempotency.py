"""X-Request-ID: for an hour, the same request gives the same answer, and another request is rejected."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

from raw_provider import PAYMENT, advance, assert_refused, decide

from tppkit.sandbox import SandboxServer

OTHER = {**PAYMENT, "creditorName": "Another Shop"}


def rows_in(server: SandboxServer, table: str = "payments") -> int:
    """How many rows a table of the database has."""
    with closing(sqlite3.connect(server.sandbox.settings.directory / "sandbox.sqlite")) as database:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_the_same_request_again_gets_the_same_answer_also_after_later_changes(caller, fresh_bank):
    request_id = str(uuid4())
    first, second = (caller.initiate(request_id=request_id) for _ in range(2))
    assert (second.status_code, second.content) == (201, first.content)
    decide(first.json(), "decline")
    assert caller.initiate(request_id=request_id).content == first.content
    assert rows_in(fresh_bank) == 1


def test_ids_are_compared_without_case(tpp):
    request_id = str(uuid4())
    assert tpp.new_payment(request_id=request_id) == tpp.new_payment(request_id=request_id.upper())


def test_another_body_under_the_same_id_is_refused_if_only_by_a_space(caller, fresh_bank):
    request_id = str(uuid4())
    payment = caller.new_payment(request_id=request_id)
    for other in (OTHER, caller.message().body + b" "):
        assert_refused(caller.initiate(other, request_id=request_id), 409, "REQUEST_ID_REUSE")
    assert caller.new_payment(request_id=request_id) == payment
    assert rows_in(fresh_bank) == 1


def test_the_hour_ends_at_its_end_also_after_a_replay_and_then_the_id_belongs_to_the_new_request(caller, fresh_bank):
    request_id = str(uuid4())
    payment = caller.new_payment(request_id=request_id)
    advance(fresh_bank, 3590)
    assert caller.new_payment(request_id=request_id) == payment
    advance(fresh_bank, 10)
    other = caller.new_payment(body=OTHER, request_id=request_id)
    assert other["paymentId"] != payment["paymentId"]
    assert_refused(caller.initiate(request_id=request_id), 409, "REQUEST_ID_REUSE")


def test_two_providers_may_use_the_same_id(bank, tpp, connect, second_provider):
    request_id = str(uuid4())
    other = connect(bank, qwac=second_provider[0], qseal=second_provider[1])
    first = tpp.new_payment(request_id=request_id)
    second = other.new_payment(body=OTHER, request_id=request_id)
    assert first["paymentId"] != second["paymentId"]


def test_many_concurrent_equal_requests_make_one_payment(fresh_bank, connect):
    request_id, callers = str(uuid4()), [connect(fresh_bank) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(caller.initiate, request_id=request_id) for caller in callers for _ in range(4)]
        answers = {(done.result().status_code, done.result().content) for done in sent}
    assert [status for status, _ in answers] == [201]
    assert rows_in(fresh_bank) == 1


def test_of_many_concurrent_requests_with_one_id_one_succeeds(fresh_bank, connect):
    request_id, caller = str(uuid4()), connect(fresh_bank)
    bodies = [{**PAYMENT, "creditorName": f"Shop {number}"} for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda body: caller.initiate(body, request_id=request_id).status_code, bodies))
    assert sorted(answers) == [201] + [409] * 7
    assert rows_in(fresh_bank) == 1


def test_ids_are_deleted_after_their_hour(caller, fresh_bank):
    for _ in range(3):
        caller.new_payment()
    advance(fresh_bank, 3600)
    caller.new_payment()
    assert rows_in(fresh_bank, "request_ids_3600s") == 1
