"""The OpenAPI documents of a bank's interfaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from tppkit.protocol.gateway.endpoints import GATEWAY, VAULT
from tppkit.protocol.gateway.openapi import GATEWAY_DESCRIPTION
from tppkit.protocol.legacy.endpoints import LEGACY
from tppkit.protocol.legacy.openapi import LEGACY_DESCRIPTION
from tppkit.protocol.openapi import HeaderField, openapi_document
from tppkit.protocol.psd2 import Persona
from tppkit.protocol.psd2.openapi import psd2_description
from tppkit.sandbox.control import Control
from tppkit.seals import ANSWER_PROFILES, SealProfile

# Of HTTP itself; OpenAPI 3.1 ignores a parameter with one of the first three names.
_NOT_DESCRIBED = frozenset({"accept", "content-type", "authorization", "host", "content-length"})


def openapi_documents(
    bank: Persona, dialect: SealProfile, urls: Mapping[str, str]
) -> Mapping[str, Callable[[], dict[str, Any]]]:
    """Return functions that make the documents of `psd2`, `legacy` and `gateway`.

    Args:
        bank: the persona, whose paths, headers and bodies the PSD2 document has.
        dialect: the dialect of seals.
        urls: the addresses of the hosts by their names; a host that is absent has an address of example.
    """
    request_id = dialect.request_id or bank.interface.request_id or ""
    answer = ANSWER_PROFILES[bank.answers] if bank.signs_answers else None
    psd2 = psd2_description(
        request_id=_shown(request_id),
        seal=_seal_headers(dialect, without=request_id),
        authorization=f"The seal, {dialect.format.value}." if dialect.carrier == "Authorization" else None,
        answer_seal=() if answer is None else _seal_headers(answer, without=request_id),
    )

    def url(name: str) -> str:
        return urls.get(name, f"https://{name}.example")

    return {
        "psd2": partial(openapi_document, psd2, {url("psd2"): bank.interface}),
        "legacy": partial(openapi_document, LEGACY_DESCRIPTION, {url("legacy"): LEGACY}),
        "gateway": partial(openapi_document, GATEWAY_DESCRIPTION, {url("gateway"): GATEWAY, url("vault"): VAULT}),
    }


def openapi_control(documents: Mapping[str, Callable[[], dict[str, Any]]]) -> Iterator[Control]:
    """Yield the routes of the control host that show the documents; each is made at its first request."""
    for name, make in documents.items():
        yield Control("GET", f"/openapi/{name}.json", partial(_show, cache(make)))


async def _show(make: Callable[[], dict[str, Any]], parameters: Mapping[str, str], body: Any) -> Any:
    return await asyncio.to_thread(make)  # it takes longer than answering a request


def _seal_headers(dialect: SealProfile, *, without: str) -> tuple[HeaderField, ...]:
    """The headers that every seal of a dialect has or covers."""
    texts = {dialect.carrier: f"The seal: {dialect.format.value}."}
    if "signature-input" in dialect.carriers:
        texts["Signature-Input"] = "What the seal covers, and its parameters."
    if not dialect.covers_body:
        texts[dialect.digest_field] = "The digest of the body."
    if dialect.certificate_header is not None:
        texts[dialect.certificate_header] = f"The certificate of the seal: {dialect.certificate_form.value}."
    known = {name.lower() for name in texts} | _NOT_DESCRIBED | {without}
    covered = (name for name in dialect.covered if name.lower() in dialect.demanded and name[0] not in "@(")
    texts |= {_shown(name): "Covered by the seal." for name in covered if name.lower() not in known and ";" not in name}
    return tuple(
        HeaderField(name, text, required=True) for name, text in texts.items() if name.lower() not in _NOT_DESCRIBED
    )


def _shown(name: str) -> str:
    """The usual spelling of a header's name."""
    if name != name.lower():
        return name
    parts = {"id": "ID", "tpp": "TPP", "psu": "PSU", "uri": "URI", "ip": "IP"}
    return "-".join(parts.get(part, part.capitalize()) for part in name.split("-"))
