"""The seal of the sandbox's bank, with which it signs its answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote

from tppkit._clock import Clock
from tppkit._files import read_bounded
from tppkit.certificates import load_certificates
from tppkit.errors import ConfigurationError, FormatError
from tppkit.message import Answer, Message
from tppkit.seals import ANSWER_PROFILES, Seal, sign_answer
from tppkit.testpki.keys import load_key
from tppkit.testpki.pki import BANK_SEAL

_BANK = "--roles PSP_AS --org-id PSDLT-BL-LB900000 --name 'Example Bank TEST'"
_MAX_BYTES = 64 * 1024
SignAnswer = Callable[[Answer, Message], Answer]
"""Returns an answer with its signature; the request is needed without its body."""


def answer_signer(pki: Path, form: str | None, *, now: Clock) -> SignAnswer | None:
    """Return what signs the answers of a bank; None without a form.

    Args:
        pki: folder of a test PKI, whose `bank-seal.pem` and `bank-seal.key` are used.
        form: a name of `ANSWER_PROFILES`.
        now: the real time, which is signed.

    Raises:
        ConfigurationError: `sandbox.bank-seal`, the folder has no such seal, or the form has no algorithm for its key; `seal.*`.
    """
    if form is None:
        return None
    try:
        certificate = load_certificates(pki / f"{BANK_SEAL}.pem")[0]
        key = load_key(read_bounded(pki / f"{BANK_SEAL}.key", max_bytes=_MAX_BYTES))
    except FormatError as e:
        command = f"tppkit pki issue qseal {quote(str(pki))} --label {BANK_SEAL} --key p256 {_BANK}"
        message = f"{pki} has no seal with which the bank could sign its answers ({e.message}); make one: {command}"
        raise ConfigurationError("sandbox.bank-seal", message) from e
    try:
        seal = Seal.for_key(certificate, key, profile=ANSWER_PROFILES[form])
    except FormatError as e:
        message = (
            f"{BANK_SEAL}.pem of {pki} cannot sign answers in the form {form}: {e.message}; use a PKI with --key p256"
        )
        raise ConfigurationError("sandbox.bank-seal", message) from e
    return lambda answer, request: sign_answer(answer, request=request, seal=seal, at=now())
