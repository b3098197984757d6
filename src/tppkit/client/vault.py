"""The card vault, apart from the gateway's client: what handles card data is in scope of PCI DSS.

    with VaultClient(vault_url, api_key=os.environ["API_KEY"]) as vault:
        stored = vault.store_card(CardRequest(pan=pan, expiry=expiry, setup_token=setup_token))
        stored.card.vault_token

Source: gateway document, section 4.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import httpx
from pydantic import SecretStr

from tppkit._locals import without_locals
from tppkit.certificates.files import CertificateSource
from tppkit.client.calls import Call
from tppkit.client.card_calls import CardCalls
from tppkit.client.connections import DEFAULT_TIMEOUT_S
from tppkit.client.driver import AsyncClient, Method, SyncClient
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import Finding
from tppkit.metrics import Count
from tppkit.protocol.gateway import CardRequest, VaultCard
from tppkit.protocol.gateway.endpoints import STORE_CARD, VAULT
from tppkit.protocol.gateway.payments import check_card

_ADVICE = "the card may have been stored and the setup token used up: create another order for another token, as the vault token is lost"


class StoreResult(NamedTuple):
    """What came of storing a card.

    Attributes:
        card: the vault's answer.
        warnings: what is suspicious about the card that was sent: `card.luhn`, the check digit does not fit. Without its number.
    """

    card: VaultCard
    warnings: tuple[Finding, ...]


class VaultCalls(CardCalls):
    """Builds the requests of the card vault; sends nothing. Arguments and errors are those of `CardCalls`."""

    interface = VAULT

    def store_card(self, card: CardRequest) -> Call[StoreResult]:
        """Store a card: POST /v1/cards/, within 300 seconds of the order's creation. It is sent once.

        Args:
            card: the card, with the setup token of the order's transaction.

        Returns:
            The vault token with brand and truncated number, and warnings.

        Raises:
            RequestRefused: the vault answered with an error.
            OutcomeUnknown, TransportError: no answer says whether the card was stored. If it was, the setup token is used up.
        """
        call: Call[Any] = self.call(STORE_CARD, card, to_find_out=_ADVICE)
        warnings = check_card(card)
        return replace(call, result=lambda raw: StoreResult(call.result(raw), warnings))


class _Methods:
    store_card = Method(VaultCalls.store_card)


class VaultClient(_Methods, SyncClient[VaultCalls]):
    """The card vault, for threads.

    Args:
        base_url: `https://host[:port][/prefix]`.
        api_key: the key of the project, the same as at the gateway; better as `SecretStr`.
        server_anchors: path, PEM or DER bytes, or certificates of the server's authorities; None: the system's.
        timeout_s: for a call, in seconds, however slowly the answer comes.
        http: a client from `make_client(NoCertificate())` to use instead of a new one; it is not closed.
        count: called after each request with `answered`, `refused` or `failed`, the code, and seconds, for metrics; see `SyncClient`.

    Raises:
        ConfigurationError, FormatError: `client.base-url`, `credentials.malformed`, `trust.no-anchors`, `certificate.*`, `file.*`.

    Example:
        with VaultClient(vault_url, api_key=os.environ["API_KEY"]) as vault:
            card = CardRequest(pan=CardSecret(number), expiry=CardSecret("122030"), setup_token=setup_token)
            token = vault.store_card(card).card.vault_token
    """

    @without_locals
    def __init__(
        self, base_url: str, *, api_key: SecretStr | str, server_anchors: CertificateSource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.Client | None = None, count: Count | None = None,
    ) -> None:  # fmt: skip
        tls = NoCertificate(server_anchors=server_anchors)
        super().__init__(VaultCalls(base_url, api_key=api_key), tls, timeout_s=timeout_s, http=http, count=count)


class AsyncVaultClient(_Methods, AsyncClient[VaultCalls]):
    """The card vault, for asyncio. Arguments, methods and errors are those of `VaultClient`.

    Example:
        async with AsyncVaultClient(vault_url, api_key=os.environ["API_KEY"]) as vault:
            stored = await vault.store_card(card)
    """

    @without_locals
    def __init__(
        self, base_url: str, *, api_key: SecretStr | str, server_anchors: CertificateSource | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S, http: httpx.AsyncClient | None = None, count: Count | None = None,
    ) -> None:  # fmt: skip
        tls = NoCertificate(server_anchors=server_anchors)
        super().__init__(VaultCalls(base_url, api_key=api_key), tls, timeout_s=timeout_s, http=http, count=count)
