"""One request as the inspector shows it: without secrets and card data, with the reason of a refusal, and the diagnosis of its seal."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tppkit._encoding import parse_json
from tppkit._text import printable, shortened
from tppkit.certificates import EidasCertificate
from tppkit.codes import CODES
from tppkit.errors import FormatError
from tppkit.httpsig.components import Origin
from tppkit.message import Header, Message
from tppkit.sandbox.exchange import MAX_KEPT_BYTES, Exchange
from tppkit.sandbox.latest_requests import Kept
from tppkit.sandbox.request_log import is_secret, without_secrets
from tppkit.seals import SealProfile
from tppkit.seals.diagnose import Diagnosis, DiagnosisOutcome, diagnose_request
from tppkit.seals.diagnose.diagnosis import first_difference
from tppkit.seals.diagnose.report import visible

MASK = "***"
_MAX_VALUE = 1000  # characters of a header's value that are shown
_DIAGNOSIS_S = 10.0
_ADVICE_OF_TOOL = re.compile(" ?tppkit seal diagnose names the mistake[.]")  # the page names it


def shown_headers(headers: Iterable[Header]) -> list[Header]:
    """Return header fields, with the values of secrets as `***`."""
    return [
        (
            without_secrets(printable(name)),
            MASK if is_secret(name) else _shown_text(value.encode("latin-1"), _MAX_VALUE),
        )
        for name, value in headers
    ]


def shown_body(body: bytes, *, is_whole: bool, is_plain: bool) -> str | None:
    """Return a body as text, with the values of secrets and card data as `***`; None for one that may have some and is not JSON.

    Args:
        body: its bytes, or the first of them.
        is_whole: whether these are all.
        is_plain: whether other bodies than JSON are shown: their secrets can be found only by their form, not by their names.
    """
    with suppress(FormatError):
        value = parse_json(body, what="the body", max_bytes=MAX_KEPT_BYTES) if is_whole else _absent(body)
        masked = _masked(value)
        # As it arrived if possible: a body that was written again has another digest.
        return _shown_text(body) if masked == value else json.dumps(masked, indent=2, ensure_ascii=False)
    return _shown_text(body) if is_plain or not body else None


def _absent(body: bytes) -> Any:
    raise FormatError("json.malformed", f"{len(body)} bytes are not the whole body")


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {
                without_secrets(name): MASK if is_secret(name) and one is not None else _masked(one)
                for name, one in value.items()
            }
        case list():
            return [_masked(one) for one in value]
        case str():
            return without_secrets(value)
        case int() | float() if without_secrets(str(value)) != str(value):
            return MASK
    return value


def _shown_text(raw: bytes, limit: int = MAX_KEPT_BYTES) -> str:
    text = without_secrets(raw.decode("utf-8", "backslashreplace"))
    return shortened("\n".join(map(printable, re.split("\r?\n", text))), limit)


class Reason(NamedTuple):
    """Why a request was refused.

    Attributes:
        code: the code of the error.
        message: what is wrong with this request; without secrets.
        meaning: what the code means; empty for a code without a row.
        hint: what to do.
    """

    code: str
    message: str
    meaning: str
    hint: str


def reason_of(exchange: Exchange) -> Reason | None:
    """Return why a request was refused, None if it was not."""
    error: Any = exchange.error
    if error is None:
        return None
    meaning, hint, _ = CODES.get(error.code, ("", "", False))
    return Reason(error.code, _plain(error.message), _plain(meaning), _plain(hint))


class ShownDiagnosis(NamedTuple):
    """The diagnosis of a seal, as text.

    Attributes:
        diagnosis: the diagnosis.
        causes: what was done, the proof, and what to do instead, of each cause; without secrets, like the following.
        advice: what to try next.
        computed: what the bank computed: the text before the first difference, the byte there, and the rest; None if it is unknown.
        signed: the same for what was signed; None if it is unknown, or the same.
        digests: the digest that was sent and the one of the body that arrived, in the same form; None unless the digest is wrong.
    """

    diagnosis: Diagnosis
    causes: list[tuple[str, ...]]
    advice: list[str]
    computed: tuple[str, str, str] | None
    signed: tuple[str, str, str] | None
    digests: tuple[tuple[str, str, str], tuple[str, str, str]] | None


class SealDiagnoses:
    """Explains refused seals, one at a time, in a thread.

    Args:
        profile: the dialect of the bank.
        certificates: the known seal certificates, for a dialect that sends none.
        origin: the address of the bank.
    """

    def __init__(
        self, profile: SealProfile, certificates: Mapping[str, EidasCertificate], origin: Origin | None
    ) -> None:
        self._profile, self._origin = profile, origin
        self._certificates = certificates
        self._running = asyncio.Lock()

    async def diagnose(self, kept: Kept) -> ShownDiagnosis | str | None:
        """Diagnose a request whose seal was refused; return a text if that is impossible, None if its seal is not the reason."""
        exchange = kept.exchange
        if not kept.has_refused_seal:
            return None
        if not exchange.is_whole or exchange.body_size > len(exchange.body):
            return "The body did not arrive, or is too large to be kept, so the seal cannot be diagnosed."
        try:
            async with asyncio.timeout(_DIAGNOSIS_S), self._running:
                found = await asyncio.to_thread(self._diagnose, kept)
        except TimeoutError:
            return "The diagnosis takes too long. Try again later, or use tppkit seal diagnose."
        if found.outcome is DiagnosisOutcome.VERIFIES:
            return None
        return _shown(found, self._digests(exchange) if exchange.error_code == "digest.mismatch" else None)

    def _digests(self, one: Exchange) -> tuple[bytes, bytes] | None:
        sent = one.header(self._profile.digest_name)
        if sent is None:
            return None
        with suppress(FormatError):
            content = self._profile.hashed(Message(one.method, one.target, one.headers, one.body))
            return sent.encode("latin-1"), self._profile.digest_value(content).encode("latin-1")
        return None

    def _diagnose(self, kept: Kept) -> Diagnosis:
        one = kept.exchange
        qwac = None
        with suppress(FormatError):
            qwac = None if one.certificate is None else EidasCertificate.from_pem(one.certificate.encode())
        message = Message(one.method, one.target, one.headers, one.body)
        return diagnose_request(
            message,
            certificates=tuple(self._certificates.values()),
            profile=self._profile,
            at=kept.received_at,
            qwac=qwac,
            origin=self._origin,
        )


def _shown(diagnosis: Diagnosis, digests: tuple[bytes, bytes] | None) -> ShownDiagnosis:
    at = diagnosis.first_difference
    causes = [tuple(map(_plain, (one.sentence, "; ".join(one.evidence), one.fix))) for one in diagnosis.causes]
    signed = None if at is None else masked_parts(diagnosis.signed, at)
    computed, shown = masked_parts(diagnosis.expected, at), None
    if digests is not None:
        sent, right = [masked_parts(one, first_difference(*digests)) for one in digests]
        shown = None if sent is None or right is None else (sent, right)
    return ShownDiagnosis(diagnosis, causes, [*map(_plain, diagnosis.advice)], computed, signed, shown)


def _plain(text: str) -> str:
    """Return a text without secrets, control characters and the marks of code."""
    return _ADVICE_OF_TOOL.sub("", without_secrets(printable(text.replace("`", ""))))


def masked_parts(text: bytes | None, at: int | None) -> tuple[str, str, str] | None:
    """Return a text before a byte, at it and after it, without secrets; all in the first part if the byte is in a secret."""
    if text is None:
        return None
    begin, end = (len(text), len(text)) if at is None else (at, at + 1)
    parts = [*map(_without_secrets, (text[:begin], text[begin:end], text[end:]))]
    whole = _without_secrets(text)
    if b"".join(parts) != whole:
        parts = [whole, b"", b""]
    before, there, after = [visible(part).replace("␊", "↵") for part in parts]  # few fonts have ␊
    return before, there, after


def _without_secrets(text: bytes) -> bytes:
    return without_secrets(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
