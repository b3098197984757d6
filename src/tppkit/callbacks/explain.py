"""Explain a rejected callback: the signed bytes that were tried, the rule that failed, and the likely mistake.

The likely cause is found by trial: if the signature fits the request after a common mistake is undone, that was the mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import combinations, islice, product

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit.callbacks import causes
from tppkit.callbacks.addresses import TOKEN
from tppkit.callbacks.causes import Cause
from tppkit.callbacks.signature import CallbackKey, CallbackRejected
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, verify_callback
from tppkit.errors import Finding, Severity
from tppkit.message import Message

# Reaching either limit takes about a second on a slow machine: signature verifications, and bytes hashed for them.
MAX_TRIALS = 20_000
MAX_HASHED = 64 * 1024 * 1024
_MAX_CHANGES = 2
_MAX_KEYS = 16

Trial = tuple[bytes, tuple[Cause, ...]]


@dataclass(frozen=True, slots=True)
class SignedCandidate:
    """Bytes that the signature was compared with.

    Attributes:
        url: the URL in them.
        form: `as received`, `as configured` or `percent-decoded`.
        data: requestid, method, URL and body; as confidential as the request.
    """

    url: str
    form: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CallbackExplanation:
    """The result of `explain_callback`.

    Attributes:
        verified: the verified callback, None if it is rejected.
        rejection: the error of `verify_callback`, None if the callback is valid.
        findings: the rejection as an error, then each part of the likely cause as a warning; empty if the callback is valid.
        candidates: the signed bytes that `verify_callback` tries; empty if there is no requestid or the address is unknown.
        keys: the name of each key of the receiver, and whether it is valid at the time.

    Example:
        for candidate in explanation.candidates:
            print(candidate.form, candidate.url)
    """

    verified: VerifiedCallback | None
    rejection: CallbackRejected | None
    findings: tuple[Finding, ...]
    candidates: tuple[SignedCandidate, ...]
    keys: tuple[tuple[str, bool], ...]


def explain_callback(
    received: Message, *, at: datetime, receiver: CallbackReceiver, other_keys: Sequence[CallbackKey] = ()
) -> CallbackExplanation:
    """Explain why a callback is rejected. Never raises because of the content of a request.

    Uses up to two seconds of processor time, so call it for analysis and not for each request of a server. If many keys or a long
    body make the number of trials too large, pairs of mistakes are left out first.

    Args:
        received: the request, exactly as it came.
        at: the time to judge at, aware.
        receiver: the addresses and keys that rejected it.
        other_keys: keys that the receiver does not trust but that may explain the signature: test keys, old keys, other banks' keys.

    Raises:
        ConfigurationError: `time.naive`.

    Example:
        for finding in explain_callback(received, at=utc_now(), receiver=receiver).findings:
            print(finding.code, finding.message)
    """
    at = as_utc(at)
    keys = tuple([(key.name, key.counts_at(at)) for key in receiver.keys])
    candidates = _candidates(received, receiver)
    try:
        verified = verify_callback(received, at=at, receiver=receiver)
    except CallbackRejected as e:
        refusal = Finding(e.code, Severity.ERROR, e.message, e.clause)
        found = _likely_causes(received, receiver, other_keys, at, e)
        likely = tuple([Finding(cause.code, Severity.WARNING, cause.message) for cause in found])
        return CallbackExplanation(None, e, (refusal, *likely), candidates, keys)
    return CallbackExplanation(verified, None, (), candidates, keys)


def _header(received: Message, name: str) -> str | None:
    return next((value for field, value in received.headers if field.lower() == name), None)


def _candidates(received: Message, receiver: CallbackReceiver) -> tuple[SignedCandidate, ...]:
    request_id = _header(received, "requestid")
    match = receiver.book.find(received.target)
    if request_id is None or match is None:
        return ()
    head = f"{request_id}{received.method}".encode("utf-8", "replace")
    configured = match.address.url.removesuffix(TOKEN) + match.token
    found = []
    for place, url in enumerate(match.urls):
        text = url.decode("utf-8", "replace")
        form = "as received" if place == 0 else "as configured" if text == configured else "percent-decoded"
        found.append(SignedCandidate(text, form, head + url + received.body))
    return tuple(found)


def _likely_causes(
    received: Message, receiver: CallbackReceiver, other_keys: Sequence[CallbackKey], at: datetime,
    rejection: CallbackRejected,
) -> tuple[Cause, ...]:  # fmt: skip
    request_id, signature = _header(received, "requestid"), _header(received, "signature")
    if request_id is None or signature is None or rejection.code == "callback.too-large":
        return ()
    reading = causes.read_any_signature(signature)
    if reading is None:
        return (
            Cause(
                "callback-cause.signature-unreadable", "the signature is not in a known encoding of ECDSA signatures"
            ),
        )
    der, encoding = reading
    keys = (*receiver.keys, *other_keys)[:_MAX_KEYS]
    for data, changes in affordable(_trials(received, request_id, receiver), keys=len(keys)):
        digest = sha256(data).digest()
        if key := next((key for key in keys if key.has_signed_digest(digest, der)), None):
            found = (*changes, *((encoding,) if encoding else ()), *_key_causes(key, receiver, at))
            return found or _explained_by_rule(rejection)
    lost = causes.lost_query(received, receiver.book)
    if lost is not None:
        return (lost,)
    if not received.body and received.method == "POST":
        why = "the body is empty, so what was signed is not known: did the framework or a middleware read it before?"
        return (Cause("callback-cause.body-empty", why),)
    names = " or ".join(shown(key.name) for key in keys)
    return (Cause("callback-cause.none-found", f"no common mistake explains the signature under {names}"),)


def affordable(trials: Iterable[Trial], *, keys: int) -> Iterator[Trial]:
    """Yield trials until `MAX_TRIALS` verifications over all keys, or `MAX_HASHED` bytes, are reached."""
    hashed = 0
    for trial in islice(trials, MAX_TRIALS // keys):
        hashed += len(trial[0])
        if hashed > MAX_HASHED:
            return
        yield trial


def _trials(received: Message, request_id: str, receiver: CallbackReceiver) -> Iterator[Trial]:
    """Yield the bytes that may have been signed, those with fewer changes first."""
    parts = (
        causes.heads(request_id, received.method), causes.urls(received, receiver.book), causes.bodies(received.body),
    )  # fmt: skip
    as_it_came = [[variant for variant in part if variant.cause is None] for part in parts]
    changed = [[variant for variant in part if variant.cause] for part in parts]
    for changes in range(_MAX_CHANGES + 1):
        for where in reversed(list(combinations(range(len(parts)), changes))):
            for chosen in product(*(changed[n] if n in where else as_it_came[n] for n in range(len(parts)))):
                yield b"".join([variant.data for variant in chosen]), tuple([one.cause for one in chosen if one.cause])


def _key_causes(key: CallbackKey, receiver: CallbackReceiver, at: datetime) -> Iterator[Cause]:
    if key not in receiver.keys:
        yield Cause(
            "callback-cause.key-other", f"the key {shown(key.name)} signed it, which the receiver does not trust"
        )
    elif not key.counts_at(at):
        yield Cause(
            "callback-cause.key-validity", f"the key {shown(key.name)} signed it, which is not valid at the time"
        )


def _explained_by_rule(rejection: CallbackRejected) -> tuple[Cause, ...]:
    """Return the cause for a request whose signature fits as received, so that only a rule rejected it."""
    if rejection.code in ("callback.request-id", "callback.body", "callback.method"):
        return (
            Cause(
                "callback-cause.other-reading",
                "the signature fits these bytes, but they can be read as another request, as in a forged callback",
            ),
        )
    return (Cause("callback-cause.rule-only", "the signature fits; only the rule that the error names rejects it"),)
