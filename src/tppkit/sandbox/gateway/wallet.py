"""Wallet sessions. The sandbox makes the session itself, and does not call the wallet provider."""

from __future__ import annotations

from datetime import timedelta

from tppkit._clock import to_microseconds
from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.bodies import WalletSession, WalletSessionRequest
from tppkit.protocol.gateway.endpoints import WALLET_SESSION
from tppkit.protocol.gateway.payments import merchant_identifier
from tppkit.sandbox.cell import Answer, Handler, HostCall

_LIFETIME = timedelta(minutes=5)


def wallet_session(call: HostCall[WalletSessionRequest]) -> Answer[WalletSession]:
    """POST /v1/wallet-pay/sessions/."""
    body, identifier = call.body, merchant_identifier(call.caller)
    if body.merchant_identifier.lower() != identifier:
        raise LocalProtocolError("wallet.merchant", "merchantIdentifier is not the project id without hyphens")
    data = {
        "merchantSessionIdentifier": call.settings.new_id(), "merchantIdentifier": identifier, "domainName": body.initiative_context,
        "displayName": body.display_name, "epochTimestamp": to_microseconds(call.at) // 1000,
        "expiresAt": to_microseconds(call.at + _LIFETIME) // 1000,
    }  # fmt: skip
    return Answer(WalletSession(session_data=data))


HANDLERS = (Handler(WALLET_SESSION, wallet_session, writes=False),)
