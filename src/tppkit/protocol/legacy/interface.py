"""The legacy interface as one value. Source: PSD2 document, part B."""

from __future__ import annotations

from tppkit.protocol.endpoint import Auth, Interface
from tppkit.protocol.legacy.endpoints import ENDPOINTS
from tppkit.protocol.legacy.errors import REFUSALS

LEGACY = Interface(name="legacy", endpoints=ENDPOINTS, refusals=REFUSALS, default_auth=Auth.API_KEY)
