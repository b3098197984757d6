"""A provider keeps what it sends, before it is sent; what cannot be kept is not sent."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import AsyncPsd2Client, Identity, Psd2Client, SealAuth
from tppkit.errors import ArchiveError, RemoteProtocolError
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives, make_sent_record
from tppkit.protocol.psd2 import PaymentInitiation
from tppkit.seals import PROFILES, Seal, SentRequest
from tppkit.testpki import Pki, make_pki
from tppkit.trust import PathVerifier, TrustMaterial, make_anchors

ORIGIN = "https://psd2.bank.example"
CONTENT = (
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"LT121000011101001000"},'
    b'"creditorName":"Bookshop"}'
)
PAYMENT = PaymentInitiation.from_wire(CONTENT)


class Bank:
    """Counts what arrives and answers what no interface has."""

    def __init__(self) -> None:
        self.received: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.received.append(request)
        return httpx.Response(204)


@pytest.fixture(scope="module")
def provider() -> Pki:
    return make_pki(at=utc_now() - timedelta(days=1), seed=3)


def identity_of(pki: Pki, profile: str = "psd2-v1") -> Identity:
    key_id = "client-1" if profile == "amazon" else None
    seal = Seal.for_key(pki.qseal.certificate, pki.qseal.key, profile=PROFILES[profile], key_id=key_id)
    return Identity(pki.qwac.certificate, pki.qwac.key, chain=(pki.qwac_ca.certificate,), seal=seal)


def test_a_provider_keeps_its_payments_and_they_are_verified_again(provider, tmp_path):
    bank = Bank()
    with EvidenceArchive(tmp_path / "sent", stream_id="5a" * 16) as archive:

        def keep(sent: SentRequest) -> None:
            assert bank.received == []  # before it is sent
            archive.append(make_sent_record(sent, payment_ref="order-1"))

        http = httpx.Client(transport=httpx.MockTransport(bank))
        with Psd2Client(ORIGIN, identity=identity_of(provider), http=http, keep=keep) as client:
            with pytest.raises(RemoteProtocolError):
                client.initiate_payment(PAYMENT)
            with pytest.raises(RemoteProtocolError):
                client.payment_status("p-1")  # is not sealed

        async def main() -> None:
            http = httpx.AsyncClient(transport=httpx.MockTransport(bank))
            async with AsyncPsd2Client(ORIGIN, identity=identity_of(provider), http=http, keep=keep_async) as client:
                with pytest.raises(RemoteProtocolError):
                    await client.initiate_payment(PAYMENT)

        async def keep_async(sent: SentRequest) -> None:
            await asyncio.to_thread(archive.append, make_sent_record(sent))

        asyncio.run(main())
        first, second = reversed(list(archive.newest(2)))
    assert (first.direction, first.payment_ref, first.http_status, second.kind) == ("sent", "order-1", None, 1)
    assert first.body == bank.received[0].content
    paths = PathVerifier(make_anchors([provider.root.certificate, provider.qseal_ca.certificate]))
    result = audit_archives([tmp_path / "sent"], AuditPlan(now=utc_now()), material=paths)
    assert (result.exit_code, result.records) == (0, 2)


@pytest.mark.parametrize("profile", ["cavage-12", "amazon", "open-finance"])
def test_requests_in_every_format_are_kept(profile, provider, tmp_path):
    sent: list[SentRequest] = []
    auth = SealAuth(identity_of(provider, profile), origin=ORIGIN, keep=sent.append)
    request = httpx.Request(
        "POST",
        f"{ORIGIN}/payments",
        content=CONTENT,
        headers={"X-Request-ID": str(UUID(int=1)), "x-amz-access-token": "t"},
    )
    next(auth.sync_auth_flow(request))
    with EvidenceArchive(tmp_path / "sent", stream_id="5a" * 16) as archive:
        archive.append(make_sent_record(sent[0]))
    material = TrustMaterial(make_anchors(provider.authorities))
    assert audit_archives([tmp_path / "sent"], AuditPlan(now=utc_now()), material=material).by_code == {}


def test_a_request_that_cannot_be_kept_is_not_sent(provider, tmp_path):
    bank = Bank()
    archive = EvidenceArchive(tmp_path / "sent", stream_id="5a" * 16)
    archive.close()

    def keep(sent: SentRequest) -> Any:
        return archive.append(make_sent_record(sent))

    http = httpx.Client(transport=httpx.MockTransport(bank))
    with (
        Psd2Client(ORIGIN, identity=identity_of(provider), http=http, keep=keep) as client,
        refused(ArchiveError, "archive.unusable"),
    ):
        client.initiate_payment(PAYMENT)
    assert bank.received == []
    assert (Path(tmp_path) / "sent" / "records.jsonl").read_bytes() == b""
