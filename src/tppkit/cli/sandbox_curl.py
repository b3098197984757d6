"""curl command lines for a running sandbox: a payment that is sealed when the line runs, and an order at the gateway."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from tppkit._files import write_new
from tppkit.certificates import load_certificates
from tppkit.seals import SealProfile

_PATH = "/psd2/v1/payments/sepa-credit-transfers"
_PAYMENT = b"""{
  "instructedAmount": {"currency": "EUR", "amount": "12.50"},
  "creditorAccount": {"iban": "LT121000011101001000"},
  "creditorName": "Bookshop",
  "remittanceInformationUnstructured": "Order 4711"
}
"""
_ORDER = '{"currency": "EUR", "amount": 1250, "merchant_order_id": "4711"}'
# `seal sign` writes these.
_WRITTEN = frozenset({"date", "digest", "content-type"})


def curl_line(server: Any) -> str:
    """Return the line for a payment; it sends `payment.json` in the sandbox's folder, which is created if absent.

    Args:
        server: a `SandboxServer`.

    Raises:
        FormatError: the PKI has no QSealC with a key that the dialect accepts: `file.unreadable`, `profile.key`, `certificate.*`.
        ConfigurationError: `file.unwritable`.
    """
    from tppkit.sandbox.dialect import key_id_of

    settings = server.sandbox.settings
    profile, folder, pki = settings.profile, settings.directory.resolve(), server.sandbox.pki.resolve()
    certificate = load_certificates(pki / "qseal.pem")[0]
    profile.algorithm_for(certificate)
    payment, headers = folder / "payment.json", folder / "payment.headers"
    if not payment.exists():
        write_new(payment, _PAYMENT)
    url = server.local.url("https", 0, port=server.ports["psd2"]) + _PATH
    sign = [
        sys.executable, "-m", "tppkit", "seal", "sign", "--key", pki / "qseal.key", "--cert", pki / "qseal.pem",
        "--method", "POST", "--url", url, "--body", payment, "--profile", profile.name, *_headers(profile, payment.stat().st_size),
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


def _headers(profile: SealProfile, length: int) -> list[str]:
    """Return options for the covered headers that `seal sign` does not write."""
    values = {"content-type": "application/json"}
    for name in (*profile.covered, *profile.covered_if_present):
        if name.lower() == "content-length":
            values[name] = str(length)
    for name in profile.demanded - _WRITTEN - {profile.request_id or "", profile.digest_name}:
        if name[0] not in "(@":
            values.setdefault(name, "example")
    return [part for name, value in values.items() for part in ("--header", f"{name.title()}: {value}")]


def _quoted(words: list[Any]) -> str:
    return shlex.join(map(str, words))
