"""The PSD2 interface from the provider's side: one line for each builder of `psd2_calls`, for threads and asyncio.

    with Psd2Client("https://psd2.bank.example", identity=identity) as client:
        initiated = client.initiate_payment(payment)
        final = client.wait_for_payment(initiated.payment_id)

Source: PSD2 document, part A.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import httpx

from tppkit.client.connections import DEFAULT_TIMEOUT_S
from tppkit.client.driver import AsyncClient, Method, StreamMethod, SyncClient
from tppkit.client.identity import Identity
from tppkit.client.psd2_calls import Psd2Calls


class _Methods:
    initiate_payment = Method(Psd2Calls.initiate_payment)
    payment_status = Method(Psd2Calls.payment_status)
    payment_details = Method(Psd2Calls.payment_details)
    cancel_payment = Method(Psd2Calls.cancel_payment)
    wait_for_payment = Method(Psd2Calls.wait_for_payment)
    create_consent = Method(Psd2Calls.create_consent)
    consent = Method(Psd2Calls.consent)
    consent_status = Method(Psd2Calls.consent_status)
    delete_consent = Method(Psd2Calls.delete_consent)
    wait_for_consent = Method(Psd2Calls.wait_for_consent)
    accounts = Method(Psd2Calls.accounts)
    balances = Method(Psd2Calls.balances)
    transactions = Method(Psd2Calls.transactions)
    iter_transactions = StreamMethod(Psd2Calls.iter_transactions)


class Psd2Client(_Methods, SyncClient[Psd2Calls]):
    """A bank's PSD2 interface, for threads.

    Args:
        base_url: `https://host[:port][/prefix]`.
        identity: QWAC and seal.
        timeout_s: time limit for each attempt of a call, in seconds.
        new_request_id: makes X-Request-IDs.
        http: a client from `make_client` to use instead of a new one; it is not closed, and its own `auth` and redirects are not used.
        sleep: waits a number of seconds, between polls and before a request is repeated.
        clock: monotonic seconds.

    Example:
        with Psd2Client("https://psd2.bank.example", identity=identity) as client:
            initiated = client.initiate_payment(payment)
            final = client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        new_request_id: Callable[[], UUID] = uuid4, http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        calls = Psd2Calls(base_url, identity=identity, new_request_id=new_request_id)
        super().__init__(calls, identity, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock)


class AsyncPsd2Client(_Methods, AsyncClient[Psd2Calls]):
    """A bank's PSD2 interface, for asyncio. Arguments, methods and errors are those of `Psd2Client`.

    Example:
        async with AsyncPsd2Client("https://psd2.bank.example", identity=identity) as client:
            initiated = await client.initiate_payment(payment)
            final = await client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, base_url: str, *, identity: Identity, timeout_s: float = DEFAULT_TIMEOUT_S,
        new_request_id: Callable[[], UUID] = uuid4, http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        calls = Psd2Calls(base_url, identity=identity, new_request_id=new_request_id)
        super().__init__(calls, identity, timeout_s=timeout_s, http=http, sleep=sleep, clock=clock)
