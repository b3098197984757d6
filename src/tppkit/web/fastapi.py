"""What a FastAPI handler asks for behind `SealMiddleware`: the verified request, as a dependency.

@app.post("/psd2/v1/payments/{product}")
async def initiate(product: str, verified: Sealed) -> Response: ...
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from tppkit.seals import VerifiedRequest
from tppkit.web.caller import verified_request


async def sealed_request(request: Request) -> VerifiedRequest:
    """The dependency: what the seal of the request proves.

    Raises:
        ConfigurationError: `web.unverified`, no middleware was passed, or the endpoint requires no seal.
    """
    return verified_request(request.scope)


Sealed = Annotated[VerifiedRequest, Depends(sealed_request)]
