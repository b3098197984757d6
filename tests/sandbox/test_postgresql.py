"""The sandbox on PostgreSQL, whose transactions run side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest
from raw_provider import PAYMENT, RawProvider, approval_link

from tppkit.sandbox import SandboxServer, SandboxSettings, run_sandbox


@pytest.fixture
def server(postgresql_url: str, bank_pki_folder: Path, tmp_path: Path) -> Iterator[SandboxServer]:
    """A sandbox with a database of its own."""
    name = f"bank_{uuid4().hex}"
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = postgresql_url.replace("postgresql:", "postgresql+psycopg:").replace("/postgres?", f"/{name}?")
    with run_sandbox(SandboxSettings(tmp_path / "bank", pki=bank_pki_folder, database=url)) as server:
        yield server


def test_equal_requests_at_once_make_one_payment(server: SandboxServer, connect: Callable[..., RawProvider]) -> None:
    caller = connect(server)
    sealed = caller.sealed(caller.message(PAYMENT))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: connect(server).send(sealed), range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["paymentId"] for answer in answers}) == 1


def test_a_payment_is_cancelled_or_approved_and_never_both(
    server: SandboxServer, connect: Callable[..., RawProvider]
) -> None:
    caller = connect(server)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            payment = caller.new_payment()
            deciding = pool.submit(httpx.post, approval_link(payment), data={"action": "approve"}, trust_env=False)
            cancelled = caller.cancel(payment).status_code == 200
            deciding.result()
            assert caller.status(payment) in ({"RJCT"} if cancelled else {"ACSP", "ACSC"})
