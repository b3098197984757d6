"""Hostile callbacks to test a receiver with: what each tests, how it is built, and the expected answer.

This module only builds requests. The sender must change neither target, method nor headers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tppkit._encoding import shown
from tppkit.callbacks.addresses import TOKEN, CallbackAddress
from tppkit.callbacks.signature import make_signature, signed_bytes
from tppkit.callbacks.verify import P256_ORDER
from tppkit.errors import ConfigurationError
from tppkit.message import Message

_STRANGERS = "https://stranger.example"
_STRANGER = _STRANGERS + "/x?"


class Answer(StrEnum):
    """The class of status that a receiver should answer with."""

    ACCEPTED = "2xx"
    REFUSED = "4xx"
    HANDLED = "2xx or 4xx"

    def fits(self, status: int) -> bool:
        """Whether a status is in the class; 501 (the server does not know the method) counts as a refusal."""
        refused = 400 <= status < 500 or status == 501
        accepted = 200 <= status < 300
        return accepted if self is Answer.ACCEPTED else refused if self is Answer.REFUSED else accepted or refused


class Target:
    """A receiver to test, and the key that it trusts.

    Args:
        key: the private key whose public key the receiver has.
        stranger: a key that the receiver does not have.
        address: the receiver's address as it is signed, with a token in place of `{token}`.
        body: a JSON object that the address accepts.
        name: letters and digits that begin each requestid of a run.
        path: the target that the receiver gets, if a proxy changes it; by default the address's path.

    Raises:
        ConfigurationError: `callback.address-unusable`, the address contains `{token}`.
    """

    def __init__(
        self, *, key: ec.EllipticCurvePrivateKey, stranger: ec.EllipticCurvePrivateKey, address: CallbackAddress, body: bytes,
        name: str, path: str = "",
    ) -> None:  # fmt: skip
        if address.has_token:
            raise ConfigurationError(
                "callback.address-unusable", f"{shown(address.url)} needs a token in place of {TOKEN}"
            )
        self.key, self.stranger, self.body, self.name = key, stranger, body, name
        self.url, self.origin, self.signed_path = address.url, address.origin, address.path
        self.path = path or address.path

    def request_id(self, attack: str) -> str:
        """Return the requestid of an attack."""
        return f"{self.name}-{attack}"[:64]

    def call(
        self, attack: str, *, body: bytes | None = None, signed: bytes | None = None, signature: str | None = None,
        request_id: str | None = None, key: ec.EllipticCurvePrivateKey | None = None, method: str = "POST",
        url: str | None = None, path: str | None = None,
    ) -> Message:  # fmt: skip
        """Build a callback that is valid except for the given parts.

        Args:
            attack: name of the attack, for the requestid.
            body: the body to send.
            signed: the bytes to sign, if they differ from those of this request.
            signature: value of the signature header.
            request_id: value of the requestid header.
            key: the signing key.
            method: the method to send and sign.
            url: the URL to sign.
            path: the target to send.
        """
        body = self.body if body is None else body
        request_id = self.request_id(attack) if request_id is None else request_id
        data = signed_bytes(request_id, method, url or self.url, body) if signed is None else signed
        value = make_signature(key or self.key, data) if signature is None else signature
        headers = (("requestid", request_id), ("signature", value), ("Content-Type", "application/json"))
        return Message(method, self.path if path is None else path, headers, body)

    def url_of(self, path: str) -> str:
        """Return the URL that a receiver builds for another path, including the prefix that a proxy strips."""
        before = self.signed_path.removesuffix(self.path) if self.signed_path.endswith(self.path) else ""
        return self.origin + before + path

    def good_signature(self, attack: str) -> str:
        """Return the signature of a valid callback with the requestid of an attack."""
        return make_signature(self.key, signed_bytes(self.request_id(attack), "POST", self.url, self.body))


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    Attributes:
        name: short name.
        tests: the property that a receiver shows by the expected answer.
        make: builds the requests, which are sent in order; only the last answer is judged.
        answer: the expected class of status.
    """

    name: str
    tests: str
    make: Callable[[Target], tuple[Message, ...]]
    answer: Answer


def _forged(target: Target) -> tuple[Message, ...]:
    # The service signed a GET to an address that an attacker chose; the URL ends with the receiver's address.
    request_id = "r1GET" + _STRANGER
    signed = signed_bytes("r1", "GET", f"{_STRANGER}POST{target.url}", target.body)
    return (target.call("forged", request_id=request_id, signed=signed),)


def _moved(target: Target) -> tuple[Message, ...]:
    # The same signed bytes, split elsewhere: the store has not seen this requestid.
    first = target.call("moved")
    (_, request_id), (_, signature), _ = first.headers
    method = request_id[-1] + "POST"
    return first, target.call("moved", request_id=request_id[:-1], signature=signature, method=method)


def _malleated(target: Target) -> tuple[Message, ...]:
    first = target.call("malleated")
    r, s = decode_dss_signature(bytes.fromhex(first.headers[1][1]))
    return first, target.call("malleated", signature=encode_dss_signature(r, P256_ORDER - s).hex())


def _replayed(target: Target) -> tuple[Message, ...]:
    first = target.call("replayed")
    return first, first


def _raw(target: Target) -> tuple[Message, ...]:
    r, s = decode_dss_signature(bytes.fromhex(target.good_signature("raw")))
    return (target.call("raw", signature=(r.to_bytes(32, "big") + s.to_bytes(32, "big")).hex()),)


def _long_form(target: Target) -> tuple[Message, ...]:
    der = bytes.fromhex(target.good_signature("long"))
    return (target.call("long", signature=(b"\x30\x81" + der[1:]).hex()),)


def _doubled(name: str) -> Callable[[Target], tuple[Message, ...]]:
    def make(target: Target) -> tuple[Message, ...]:
        call = target.call("doubled-" + name)
        again = [header for header in call.headers if header[0] == name]
        return (call._replace(headers=(*call.headers, *again)),)

    return make


def _without(name: str) -> Callable[[Target], tuple[Message, ...]]:
    def make(target: Target) -> tuple[Message, ...]:
        call = target.call("without-" + name)
        kept = tuple(header for header in call.headers if header[0] != name)
        return (call._replace(headers=kept),)

    return make


def _elsewhere(header: str) -> Callable[[Target], tuple[Message, ...]]:
    # The signed address has another host than the receiver, and a header names that host.
    def make(target: Target) -> tuple[Message, ...]:
        call = target.call(header, url=_STRANGERS + target.signed_path)
        return (call._replace(headers=(*call.headers, (header, _STRANGERS.removeprefix("https://")))),)

    return make


def _slash_encoded(target: Target) -> tuple[Message, ...]:
    path = target.path[:1] + target.path[1:].replace("/", "%2F")
    return (target.call("slash", url=target.url_of(path), path=path),)


def _further_query(target: Target) -> tuple[Message, ...]:
    path = f"{target.path}{'&' if '?' in target.path else '?'}not-ours={target.name}"
    return (target.call("query", url=target.url_of(path), path=path),)


def _sibling(target: Target) -> tuple[Message, ...]:
    # A hyphen makes this path's end no token, and the name of the run makes the path unused.
    path = target.path.partition("?")[0].rpartition("/")[0] + f"/not-ours-{target.name}"
    return (target.call("sibling", url=target.url_of(path), path=path),)


def _late(target: Target) -> tuple[Message, ...]:
    # A record without a version is sent twice, under two requestids.
    return target.call("newer", body=_next_version(target.body)), target.call("older")


def _next_version(body: bytes) -> bytes:
    try:
        record = json.loads(body)
        record["ver"] += 1
    except (ValueError, LookupError, TypeError, RecursionError):
        return body
    return json.dumps(record).encode()


def _body(name: str, body: bytes) -> Callable[[Target], tuple[Message, ...]]:
    return lambda target: (target.call(name, body=body),)


def _signature(name: str, change: Callable[[str], str]) -> Callable[[Target], tuple[Message, ...]]:
    return lambda target: (target.call(name, signature=change(target.good_signature(name))),)


# fmt: off
ATTACKS: tuple[Attack, ...] = (
    Attack("good", "a valid callback is accepted", lambda t: (t.call("good"),), Answer.ACCEPTED),
    Attack("forged", "a signed GET to an attacker's address is not read as a POST to the receiver's", _forged, Answer.REFUSED),
    Attack("moved-boundary", "the end of a requestid is not part of a method (405 and 501 are fine too)", _moved, Answer.REFUSED),
    Attack("split-url", "a body is a JSON object", lambda t: (t.call(
        "split", body=b"more" + t.body),), Answer.REFUSED),
    Attack("method-changed", "a signed GET is not accepted as a POST", lambda t: (t.call(
        "method", body=b"", signed=signed_bytes(t.request_id("method"), "GET", t.url)),), Answer.REFUSED),
    Attack("other-host", "the signed host comes from configuration, not from the Host header", _elsewhere("Host"), Answer.REFUSED),
    Attack("forwarded-host", "the X-Forwarded-Host header does not set the signed host", _elsewhere("X-Forwarded-Host"), Answer.REFUSED),
    Attack("absolute-form", "a whole URL in the request line does not set the signed host", lambda t: (t.call(
        "absolute", url=_STRANGERS + t.signed_path, path=_STRANGERS + t.signed_path),), Answer.REFUSED),
    Attack("slash-encoded", "an encoded slash is the same address or none, never an error", _slash_encoded, Answer.HANDLED),
    Attack("other-query", "the address with an added query is not the address", _further_query, Answer.REFUSED),
    Attack("other-path", "a path next to the address is not the address", _sibling, Answer.REFUSED),
    Attack("get-with-body", "a signed GET with a body is refused", lambda t: (t.call("get", method="GET"),), Answer.REFUSED),
    Attack("requestid-reused", "a requestid that returns with other signed bytes is refused", lambda t: (
        t.call("reused"), t.call("reused", body=t.body + b" ")), Answer.REFUSED),
    Attack("stale", "a late or repeated record is acknowledged or refused, never an error", _late, Answer.HANDLED),
    Attack("replayed", "the same callback again is acknowledged or refused, never an error", _replayed, Answer.HANDLED),
    Attack("malleated", "the other signature of the same bytes is a replay, never an error", _malleated, Answer.HANDLED),
    Attack("wrong-key", "an unknown key is not trusted", lambda t: (t.call("wrong-key", key=t.stranger),), Answer.REFUSED),
    Attack("unsigned", "a callback needs a signature", _without("signature"), Answer.REFUSED),
    Attack("no-requestid", "a callback needs a requestid", _without("requestid"), Answer.REFUSED),
    Attack("two-signatures", "a callback has one signature", _doubled("signature"), Answer.REFUSED),
    Attack("two-requestids", "a callback has one requestid", _doubled("requestid"), Answer.REFUSED),
    Attack("body-changed", "every byte of the body is signed", lambda t: (t.call(
        "body", body=t.body + b" ", signature=t.good_signature("body")),), Answer.REFUSED),
    Attack("requestid-long", "a requestid is short", lambda t: (t.call("x", request_id="r" * 4000),), Answer.REFUSED),
    Attack("requestid-colon", "a requestid has no colon", lambda t: (t.call("x", request_id=t.name + ":1"),), Answer.REFUSED),
    Attack("signature-empty", "a signature is not empty", _signature("empty", lambda s: ""), Answer.REFUSED),
    Attack("signature-upper-case", "a signature is in lower case", _signature("upper", str.upper), Answer.REFUSED),
    Attack("signature-spaced", "a signature has no spaces", _signature("spaced", lambda s: s[:8] + " " + s[8:]), Answer.REFUSED),
    Attack("signature-odd", "an odd number of digits is refused", _signature("odd", lambda s: s[:-1]), Answer.REFUSED),
    Attack("signature-trailing", "nothing follows a signature", _signature("trailing", lambda s: s + "00"), Answer.REFUSED),
    Attack("signature-letters", "a signature has hexadecimal digits only", _signature("letters", lambda s: "zz" + s[2:]), Answer.REFUSED),
    Attack("signature-latin-1", "letters beyond ASCII are refused", _signature("latin", lambda s: "\xe9" * 8), Answer.REFUSED),
    Attack("signature-raw", "r and s side by side are not DER", _raw, Answer.REFUSED),
    Attack("signature-long-form", "DER encodes a length in one form", _long_form, Answer.REFUSED),
    Attack("signature-zero", "r and s are not zero", _signature("zero", lambda s: "3006020100020100"), Answer.REFUSED),
    Attack("signature-huge", "a signature is short", _signature("huge", lambda s: "30" * 5000), Answer.REFUSED),
    Attack("body-empty", "a POST has a body", _body("no-body", b""), Answer.REFUSED),
    Attack("body-array", "a body is an object", _body("array", b"[1]"), Answer.REFUSED),
    Attack("body-not-utf-8", "a genuine body that is not UTF-8 is acknowledged or refused, never an error", _body(
        "bytes", b'{"token":"\xff\xfe"}'), Answer.HANDLED),
    Attack("body-cut", "an incomplete body is acknowledged or refused, never an error", _body("cut", b'{"token":'), Answer.HANDLED),
    Attack("body-twice", "a duplicate name in a body is acknowledged or refused, never an error", _body(
        "twice", b'{"token":"a","token":"b"}'), Answer.HANDLED),
    Attack("body-other-kind", "a body of another kind is acknowledged or refused, never an error", _body(
        "kind", b'{"nobody":"knows this"}'), Answer.HANDLED),
    Attack("body-nan", "NaN, which is not JSON, is acknowledged or refused, never an error", _body("nan", b'{"ver":NaN}'), Answer.HANDLED),
    Attack("body-deep", "deep nesting is acknowledged or refused, never an error", _body(
        "deep", b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"), Answer.HANDLED),
    Attack("body-large", "a body has a size limit", _body("large", b'{"a":"' + b"x" * 1_000_000 + b'"}'), Answer.REFUSED),
)
# fmt: on
