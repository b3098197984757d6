"""The lines that `tppkit sandbox up` prints to try the bank and the gateway with curl."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tppkit._files import write_new
from tppkit.certificates import load_certificates
from tppkit.seals import SealProfile

if TYPE_CHECKING:
    from tppkit.protocol.endpoint import Endpoint, RequiredHeader

_PAYMENT = b"""{
  "instructedAmount": {"currency": "EUR", "amount": "12.50"},
  "creditorAccount": {"iban": "LT121000011101001000"},
  "creditorName": "Bookshop",
  "remittanceInformationUnstructured": "Order 4711"
}
"""
_DEBTOR = "LT029999900000000001"  # of the first customer
_EXAMPLES = {"psu-ip-address": "192.0.2.1", "tpp-redirect-uri": "https://tpp.example/done"}
_ORDER = '{"currency": "EUR", "amount": 1250, "merchant_order_id": "4711"}'


def curl_line(server: Any) -> str:
    """Return the line for a payment; it sends `payment.json` in the sandbox's folder, which is created if absent.

    Args:
        server: a `SandboxServer`.

    Raises:
        FormatError: the PKI has no QSealC with a key that the dialect accepts: `file.unreadable`, `profile.key`, `certificate.*`.
        ConfigurationError: `file.unwritable`.
    """
    from tppkit.protocol.psd2 import PaymentProduct
    from tppkit.protocol.psd2.endpoints import INITIATE_PAYMENT
    from tppkit.sandbox.dialect import key_id_of

    settings = server.sandbox.settings
    profile, folder, pki = settings.dialect, settings.directory.resolve(), server.sandbox.pki.resolve()
    certificate = load_certificates(pki / "qseal.pem")[0]
    profile.algorithm_for(certificate)
    row = settings.bank.interface.named(INITIATE_PAYMENT)
    suffix = "" if settings.bank.name == "document" else f"-{settings.bank.name}"
    payment, headers = folder / f"payment{suffix}.json", folder / f"payment{suffix}.headers"
    if not payment.exists():
        write_new(payment, _payment(row))
    url = server.local.url("https", 0, port=server.ports["psd2"]) + row.target(product=PaymentProduct.SEPA)
    sign = [
        sys.executable, "-m", "tppkit", "seal", "sign", "--key", pki / "qseal.key", "--cert", pki / "qseal.pem",
        "--method", "POST", "--url", url, "--body", payment, "--profile", profile.name,
        *_headers(profile, payment.stat().st_size, row.headers),
    ]  # fmt: skip
    key_id = key_id_of(profile, certificate)
    if key_id is not None:
        sign += ["--key-id", key_id]
    curl = [
        "curl", "--cert", pki / "qwac-chain.pem", "--key", pki / "qwac.key", "--cacert", pki / "root.pem",
        "--data-binary", f"@{payment}", url,
    ]  # fmt: skip
    return f'{_quoted(curl)} -H "@$({_quoted(sign)} > {_quoted([headers])} && echo {_quoted([headers])})"'


def order_line(server: Any) -> str:
    """Return the line that creates an order at the gateway.

    Args:
        server: a `SandboxServer`.
    """
    url = server.local.url("https", 2, port=server.ports["gateway"]) + "/v1/orders/"
    root = server.sandbox.pki.resolve() / "root.pem"
    return _quoted(["curl", "--cacert", root, "--user", f"{server.addresses.api_key}:", "--json", _ORDER, url])


def _payment(row: Endpoint[Any, Any]) -> bytes:
    """Return the example payment, with what the bank requires."""
    from tppkit.protocol.adapted import RequiredFields

    if not isinstance(row.request, RequiredFields):
        return _PAYMENT
    required = {name: one for name, one in row.request.fields.items() if one is not None}
    if "debtorAccount" in row.request.fields:
        required.setdefault("debtorAccount", {"iban": _DEBTOR})
    return json.dumps({**json.loads(_PAYMENT), **required}, indent=2).encode()


def _headers(profile: SealProfile, length: int, required: Iterable[RequiredHeader]) -> list[str]:
    """Return options for the headers that `seal sign` does not write: covered ones, and those that the bank requires."""
    from tppkit.sandbox.dialect import demanded_headers

    values = {"content-type": "application/json"}
    for name in (*profile.covered, *profile.covered_if_present):
        if name.lower() == "content-length":
            values[name] = str(length)
    values |= demanded_headers(profile)
    values |= {one.name.lower(): one.default or _EXAMPLES.get(one.name.lower(), "example") for one in required}
    return [part for name, value in values.items() for part in ("--header", f"{name.title()}: {value}")]


def _quoted(words: list[Any]) -> str:
    return shlex.join(map(str, words))
