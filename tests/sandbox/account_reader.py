"""A provider that reads account data, and the decisions of its customer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from raw_provider import RawProvider, control

from tppkit.sandbox import SandboxServer
from tppkit.seals import Message

CONSENTS, ACCOUNTS = "/psd2/v1/consents", "/psd2/v1/accounts"
ALL = {"allPsd2": "allAccounts"}
AVAILABLE = {"availableAccounts": "allAccounts"}
DAILY, SAVINGS, SHOP = (f"LT{check}999990000000000{n}" for n, check in ((1, "02"), (2, "72"), (3, "45")))
SMALL = "LT189999900000000004"
ATTENDED = (("PSU-IP-Address", "192.0.2.7"),)


def request(access: Mapping[str, Any] = ALL, **fields: Any) -> dict[str, Any]:
    """The body of a consent's creation."""
    return {"access": access, "validUntil": "2099-12-31", "frequencyPerDay": 4, "recurringIndicator": True} | fields


@dataclass
class Reader:
    """Consents and account data of one provider at one bank."""

    provider: RawProvider
    server: SandboxServer

    def message(
        self, body: Any = None, *, request_id: str | None = None, headers: Iterable[tuple[str, str]] = ()
    ) -> Message:
        """A consent's creation that is not sealed yet."""
        content = body if isinstance(body, bytes) else json.dumps(request() if body is None else body).encode()
        named = (("X-Request-ID", request_id or str(uuid4())), ("Content-Type", "application/json"))
        return Message("POST", CONSENTS, (*named, *headers), content)

    def create(self, body: Any = None, **options: Any) -> httpx.Response:
        """A sealed creation."""
        return self.provider.send(self.provider.sealed(self.message(body, **options)))

    def created(self, access: Mapping[str, Any] = ALL, **fields: Any) -> str:
        """The id of a new consent."""
        response = self.create(request(access, **fields))
        assert response.status_code == 201, response.text
        return str(response.json()["consentId"])

    def decide(self, consent_id: str, action: str, **choice: str) -> httpx.Response:
        """Approve, decline or revoke as the customer."""
        return control(self.server, f"/consents/{consent_id}/{action}", choice or None)

    def approved(self, access: Mapping[str, Any] = ALL, *, iban: str = DAILY, **fields: Any) -> str:
        """The id of a new consent that the customer has approved for an account."""
        consent_id = self.created(access, **fields)
        assert self.decide(consent_id, "approve", iban=iban).json() == {"consentId": consent_id, "status": "valid"}
        return consent_id

    def get(
        self, target: str, consent_id: str | None = None, *, headers: Iterable[tuple[str, str]] = ATTENDED, method: str = "GET"
    ) -> httpx.Response:  # fmt: skip
        """A request without a seal; with the customer's address unless other headers are given."""
        named = () if consent_id is None else (("Consent-ID", consent_id),)
        return self.provider.send(Message(method, target, (("X-Request-ID", str(uuid4())), *named, *headers)))

    def accounts(self, consent_id: str, query: str = "") -> list[dict[str, Any]]:
        """The accounts of a consent."""
        response = self.get(ACCOUNTS + query, consent_id)
        assert response.status_code == 200, response.text
        listed: list[dict[str, Any]] = response.json()["accounts"]
        return listed

    def place(self, consent_id: str) -> str:
        """The path of the consent's account."""
        (account,) = self.accounts(consent_id)
        return f"{ACCOUNTS}/{account['resourceId']}"

    def status(self, consent_id: str) -> str:
        """The state that a poll reports."""
        return str(self.get(f"{CONSENTS}/{consent_id}/status").json()["status"])
