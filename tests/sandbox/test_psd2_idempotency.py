"""X-Request-ID: the same request gives the same answer for an hour, another one is refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from raw_provider import INSTANT, PAYMENT, RawProvider, advance, assert_refused, decide, make_seal, tls_context
from sqlalchemy import create_engine, text

from tppkit.sandbox import SandboxServer
from tppkit.testpki import Issued, Pki

OTHER = {**PAYMENT, "creditorName": "Another Shop"}


def payments_in(server: SandboxServer) -> int:
    """How many payments the database holds."""
    engine = create_engine(f"sqlite:///{server.sandbox.settings.directory / 'sandbox.sqlite'}")
    with engine.connect() as connection:
        count = connection.execute(text("SELECT count(*) FROM payments")).scalar_one()
    engine.dispose()
    return int(count)


@pytest.fixture
def caller(fresh_bank: SandboxServer, connect: Callable[..., RawProvider]) -> RawProvider:
    return connect(fresh_bank)


def test_the_same_request_again_gets_the_same_answer(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    request_id = str(uuid4())
    first, second = (caller.initiate(request_id=request_id) for _ in range(2))
    assert (second.status_code, second.content) == (201, first.content)
    assert payments_in(fresh_bank) == 1


def test_the_very_same_bytes_again_get_the_same_answer(tpp: RawProvider) -> None:
    sealed = tpp.sealed(tpp.message())
    assert tpp.send(sealed).content == tpp.send(sealed).content


def test_a_replay_gives_the_first_answer_whatever_happened_since(tpp: RawProvider) -> None:
    request_id = str(uuid4())
    payment = tpp.new_payment(request_id=request_id)
    decide(payment, "decline")
    assert tpp.new_payment(request_id=request_id) == payment


def test_the_case_of_the_id_does_not_count(tpp: RawProvider) -> None:
    request_id = str(uuid4())
    assert tpp.new_payment(request_id=request_id) == tpp.new_payment(request_id=request_id.upper())


def test_another_body_under_the_same_id_is_refused(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    request_id = str(uuid4())
    payment = caller.new_payment(request_id=request_id)
    assert_refused(caller.initiate(OTHER, request_id=request_id), 409, "REQUEST_ID_REUSE")
    assert caller.new_payment(request_id=request_id) == payment
    assert payments_in(fresh_bank) == 1


def test_a_space_more_is_another_body(tpp: RawProvider) -> None:
    request_id = str(uuid4())
    body = tpp.message().body
    assert tpp.initiate(body, request_id=request_id).status_code == 201
    assert_refused(tpp.initiate(body + b" ", request_id=request_id), 409, "REQUEST_ID_REUSE")


def test_another_product_under_the_same_id_is_refused(tpp: RawProvider) -> None:
    request_id = str(uuid4())
    tpp.new_payment(request_id=request_id)
    assert_refused(tpp.initiate(request_id=request_id, product=INSTANT), 409, "REQUEST_ID_REUSE")


def test_a_request_that_was_refused_does_not_use_up_its_id(tpp: RawProvider) -> None:
    request_id = str(uuid4())
    assert_refused(tpp.initiate(b"{}", request_id=request_id), 400, "FORMAT_ERROR")
    assert tpp.initiate(request_id=request_id).status_code == 201


def test_the_hour_ends_at_its_end(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    request_id = str(uuid4())
    payment = caller.new_payment(request_id=request_id)
    advance(fresh_bank, 3590)
    assert caller.new_payment(request_id=request_id) == payment
    advance(fresh_bank, 10)
    assert caller.new_payment(request_id=request_id)["paymentId"] != payment["paymentId"]


def test_a_replay_does_not_make_the_hour_longer(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    request_id = str(uuid4())
    caller.new_payment(request_id=request_id)
    advance(fresh_bank, 3000)
    caller.new_payment(request_id=request_id)
    advance(fresh_bank, 600)
    assert caller.initiate(OTHER, request_id=request_id).status_code == 201


def test_after_the_hour_the_id_belongs_to_the_new_request(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    request_id = str(uuid4())
    caller.new_payment(request_id=request_id)
    advance(fresh_bank, 3600)
    caller.new_payment(body=OTHER, request_id=request_id)
    assert_refused(caller.initiate(request_id=request_id), 409, "REQUEST_ID_REUSE")


def test_two_providers_may_use_the_same_id(
    bank: SandboxServer, tpp: RawProvider, connect: Callable[..., RawProvider], second_provider: tuple[Issued, Issued]
) -> None:
    request_id = str(uuid4())
    other = connect(bank, qwac=second_provider[0], qseal=second_provider[1])
    first = tpp.new_payment(request_id=request_id)
    second = other.new_payment(body=OTHER, request_id=request_id)
    assert first["paymentId"] != second["paymentId"]


def test_many_equal_requests_at_once_make_one_payment(fresh_bank: SandboxServer, bank_pki: Pki) -> None:
    request_id = str(uuid4())
    context = tls_context(bank_pki.qwac, bank_pki)
    with ExitStack() as opened, ThreadPoolExecutor(8) as threads:
        url = fresh_bank.addresses.psd2_url
        callers = [
            RawProvider(
                opened.enter_context(httpx.Client(base_url=url, verify=context, trust_env=False, timeout=20)),
                make_seal(bank_pki.qseal),
            )
            for _ in range(8)
        ]
        sent = [threads.submit(caller.initiate, request_id=request_id) for caller in callers for _ in range(4)]
        answers = {(done.result().status_code, done.result().content) for done in sent}
    assert len(answers) == 1
    assert answers.pop()[0] == 201
    assert payments_in(fresh_bank) == 1


def test_many_requests_at_once_under_one_id_have_one_winner(
    fresh_bank: SandboxServer, connect: Callable[..., RawProvider]
) -> None:
    request_id = str(uuid4())
    caller = connect(fresh_bank)
    bodies = [{**PAYMENT, "creditorName": f"Shop {number}"} for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda body: caller.initiate(body, request_id=request_id).status_code, bodies))
    assert sorted(answers) == [201] + [409] * 7
    assert payments_in(fresh_bank) == 1


def test_what_is_past_its_hour_is_forgotten(caller: RawProvider, fresh_bank: SandboxServer) -> None:
    for _ in range(3):
        caller.new_payment()
    advance(fresh_bank, 3600)
    caller.new_payment()
    path: Path = fresh_bank.sandbox.settings.directory / "sandbox.sqlite"
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM request_ids_3600s")).scalar_one() == 1
    engine.dispose()
