"""Hooks of schemathesis: each generated request to the PSD2 host gets a seal over what is sent, and an id of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests
import schemathesis

from tppkit.certificates import EidasCertificate
from tppkit.errors import TppkitError
from tppkit.seals import Message, Seal, load_private_key, sign_request

_PKI = Path(os.environ["SEALING_PKI"])
_CERTIFICATE = EidasCertificate.from_pem((_PKI / "qseal.pem").read_bytes())
_SEAL = Seal.for_key(_CERTIFICATE, load_private_key((_PKI / "qseal.key").read_bytes()))


class _Sealed(requests.auth.AuthBase):
    """Seals a request, unless the generated headers cannot be sealed."""

    def __call__(self, request: Any) -> Any:
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        if "X-Request-ID" in request.headers:  # an id that was answered would get the first answer again
            request.headers["X-Request-ID"] = str(uuid4())
        texts = (
            (name, one if isinstance(one, str) else one.decode("latin-1")) for name, one in request.headers.items()
        )
        unsealed = tuple((name, one) for name, one in texts if name.lower() not in _SEAL.written)
        try:
            sealed = sign_request(Message(request.method, request.path_url, unsealed, body), seal=_SEAL)
        except TppkitError:
            return request
        request.headers.clear()
        request.headers.update(sealed.headers)
        return request


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    kwargs["auth"] = _Sealed()
