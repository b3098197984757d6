"""The gateway and its vault, which has its own address. Source: gateway document, sections 4 and 7."""

from __future__ import annotations

from tppkit.protocol.endpoint import Auth, Interface
from tppkit.protocol.gateway.endpoints import ENDPOINTS, EXTENSIONS, VAULT_ENDPOINTS
from tppkit.protocol.gateway.errors import REFUSALS

GATEWAY = Interface(
    name="gateway", endpoints=(*ENDPOINTS, *EXTENSIONS), refusals=REFUSALS, default_auth=Auth.BASIC, any_2xx=True
)  # fmt: skip
VAULT = Interface(
    name="vault", endpoints=VAULT_ENDPOINTS, refusals=REFUSALS, default_auth=Auth.BASIC, any_2xx=True
)  # fmt: skip
