"""The PSD2 interface as one value. Source: PSD2 document, part A."""

from __future__ import annotations

from tppkit.protocol.endpoint import Auth, Interface
from tppkit.protocol.psd2.endpoints import ACCOUNT_INFORMATION, PAYMENTS
from tppkit.protocol.psd2.errors import REFUSALS
from tppkit.protocol.psd2.rules import parse_request_id

PSD2 = Interface(
    name="psd2",
    endpoints=(*PAYMENTS, *ACCOUNT_INFORMATION),
    refusals=REFUSALS,
    default_auth=Auth.QWAC,
    request_id="x-request-id",
    parse_request_id=parse_request_id,
)
