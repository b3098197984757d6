"""Clients of banks, services and gateways: identity, TLS and one method for each endpoint.

identity = Identity.from_files(qwac=…, qwac_key=…, qseal=…, qseal_key=…)
with Psd2Client("https://psd2.bank.example", identity=identity) as client: ...
"""

from tppkit.client.connections import make_async_client, make_client
from tppkit.client.consent_keeper import ConsentKeeper, ConsentUse, CountedBy
from tppkit.client.fetch import make_fetch
from tppkit.client.gateway import AsyncGatewayClient, GatewayClient
from tppkit.client.gateway_calls import After, OrderOutcomeUnknown, Start
from tppkit.client.identity import Identity
from tppkit.client.legacy import AccessKind, AccountUnknown, AsyncLegacyClient, LegacyClient, Unauthorized
from tppkit.client.psd2 import AsyncPsd2Client, Psd2Client
from tppkit.client.seal_auth import SealAuth
from tppkit.client.tls_context import NoCertificate
from tppkit.client.vault import AsyncVaultClient, StoreResult, VaultClient
from tppkit.protocol.gateway import DeliveryState, is_paid

__all__ = [
    "AccessKind", "AccountUnknown", "After", "AsyncGatewayClient", "AsyncLegacyClient", "AsyncPsd2Client", "AsyncVaultClient",
    "ConsentKeeper", "ConsentUse", "CountedBy", "DeliveryState", "GatewayClient", "Identity", "LegacyClient", "NoCertificate",
    "OrderOutcomeUnknown", "Psd2Client", "SealAuth", "Start", "StoreResult", "Unauthorized", "VaultClient", "is_paid",
    "make_async_client", "make_client", "make_fetch",
]  # fmt: skip
