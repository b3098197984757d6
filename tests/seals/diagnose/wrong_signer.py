"""A sender that makes mistakes: seals by hand with a real key, each step replaceable by a wrong one."""

from __future__ import annotations

import gzip
import hashlib
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tppkit._encoding import encode_base64
from tppkit.certificates import EidasCertificate
from tppkit.httpsig import make_digest
from tppkit.seals import Message
from tppkit.seals.key_id import make_key_id
from tppkit.testpki import Issued

TARGET = "/psd2/v1/payments/sepa%20ct/caf%C3%A9?x=%2Fa&b=2"
BODY = '{"b":1,"a":"x/y <é>","amount":"12.50","empty":null}'.encode()
PRETTY = '{\n  "b": 1,\n  "a": "x/y <é>",\n  "amount": "12.50"\n}\n'.encode()
HEADERS = (
    ("Host", "api.bank.example"),
    ("X-Request-ID", "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"),
    ("Date", "Mon, 01 Jun 2026 12:00:00 GMT"),
    ("TPP-Redirect-URI", "https://tpp.example/Back?a=1"),
    ("X-Words", "Two  Spaces Here"),
    ("X-Many", "One"),
    ("X-Many", "Two"),
    ("Content-Type", "application/json"),
)
COVERED = ("digest", "x-request-id", "(request-target)", "date", "tpp-redirect-uri", "x-words", "x-many")

SHA256 = hashes.SHA256()
Lines = list[tuple[str, str]]
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


class Case(NamedTuple):
    """One way to be wrong.

    Attributes:
        name: of the mistake that must be named.
        steps: what is replaced, by the names of `seal_wrongly`'s arguments.
        keys: kinds of key for which it can happen.
    """

    name: str
    steps: Mapping[str, Any]
    keys: tuple[str, ...] = ("rsa", "ec")


def sign(key: Key, data: bytes) -> bytes:
    """As it should be: SHA-256, PKCS#1 or ECDSA in DER."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def seal_wrongly(
    issued: Issued,
    *,
    method: str = "POST",
    target: str = TARGET,
    headers: tuple[tuple[str, str], ...] = HEADERS,
    body: bytes = BODY,
    covered: tuple[str, ...] = COVERED,
    hashed: Callable[[bytes], bytes] = lambda body: body,
    digest: Callable[[bytes], str] = lambda body: f"SHA-256={encode_base64(hashlib.sha256(body).digest())}",
    signed_target: Callable[[str], str] = lambda value: value,
    lines: Callable[[Lines], Lines] = lambda lines: lines,
    assemble: Callable[[Lines], bytes] = lambda lines: "\n".join(f"{n}: {v}" for n, v in lines).encode("latin-1"),
    string: Callable[[bytes], bytes] = lambda data: data,
    signer: Callable[[Key, bytes], bytes] = sign,
    written: Callable[[bytes], str] = encode_base64,
    key: Key | None = None,
    certificate: EidasCertificate | None = None,
    key_id: str | None = None,
    algorithm: str | None = None,
    names: str | None = None,
    template: str = 'keyId="{key_id}",algorithm="{algorithm}",headers="{names}",signature="{signature}"',
    finish: Callable[[Message], Message] = lambda message: message,
) -> Message:
    """A request sealed step by step."""
    certificate = certificate or issued.certificate
    private = key or issued.key
    headers = (*headers, ("Digest", digest(hashed(body))))
    values: dict[str, str] = {"(request-target)": signed_target(f"{method.lower()} {target}")}
    for name, value in headers:
        name = name.lower()
        values[name] = f"{values[name]}, {value}" if name in values else value
    text = string(assemble(lines([(name, values[name]) for name in covered])))
    usual = "rsa-sha256" if isinstance(issued.key, rsa.RSAPrivateKey) else "ecdsa-sha256"
    value = template.format(
        key_id=make_key_id(certificate) if key_id is None else key_id,
        algorithm=algorithm or usual,
        names=names if names is not None else " ".join(covered),
        signature=written(signer(private, text)),
    )
    sealing = (("Signature", value), ("TPP-Signature-Certificate", encode_base64(certificate.der)))
    return finish(Message(method, target, (*headers, *sealing), body))


def replaced(name: str, change: Callable[[str], str]) -> Callable[[Lines], Lines]:
    """The value of one line changed before signing."""
    return lambda lines: [(n, change(v) if n == name else v) for n, v in lines]


def joined(joiner: str = "\n", colon: str = ": ", after: str = "", before: str = "") -> Callable[[Lines], bytes]:
    """Lines put together otherwise."""
    return lambda lines: (before + joiner.join(f"{n}{colon}{v}" for n, v in lines) + after).encode("latin-1")


def pss(
    salt_length: int = 32, *, hashed: hashes.HashAlgorithm = SHA256, mgf: hashes.HashAlgorithm = SHA256
) -> Callable[[Key, bytes], bytes]:
    return lambda key, data: key.sign(data, padding.PSS(padding.MGF1(mgf), salt_length), hashed)


def with_hash(algorithm: hashes.HashAlgorithm) -> Callable[[Key, bytes], bytes]:
    def signer(key: Key, data: bytes) -> bytes:
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(data, padding.PKCS1v15(), algorithm)
        return key.sign(data, ec.ECDSA(algorithm))

    return signer


def bare_ecdsa(key: Key, data: bytes) -> bytes:
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def text_digest(name: str, algorithm: str, encode: Callable[[bytes], str] = encode_base64) -> Callable[[bytes], str]:
    return lambda body: f"{name}={encode(hashlib.new(algorithm, body).digest())}"


def upper_method(value: str) -> str:
    method, _, target = value.partition(" ")
    return f"{method.upper()} {target}"


def compact(body: bytes) -> bytes:
    return json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()


def dumped(**options: Any) -> Callable[[bytes], bytes]:
    return lambda body: json.dumps(json.loads(body), **options).encode()


def without_line(name: str) -> Callable[[Lines], Lines]:
    return lambda lines: [line for line in lines if line[0] != name]


def as_sent(lines: Lines) -> Lines:
    """Names in the letters in which the headers are sent."""
    sent = {name.lower(): name for name, _ in (*HEADERS, ("Digest", ""))}
    return [(sent.get(name, name), value) for name, value in lines]


def decoded_path(value: str) -> str:
    method, _, target = value.partition(" ")
    path, _, query = target.partition("?")
    return f"{method} {unquote(path).encode().decode('latin-1')}?{query}"


def wrapped(raw: bytes) -> str:
    """Base64 in MIME lines, as a header holds it: folded into spaces."""
    text = b64encode(raw).decode()
    return " ".join(text[start : start + 76] for start in range(0, len(text), 76))


CRLF_BODY = PRETTY.replace(b"\n", b"\r\n")
NEEDED = ("digest", "x-request-id", "(request-target)")

BODY_CASES = (
    Case("body-braces", {"method": "GET", "body": b"", "hashed": lambda body: b"{}"}),
    Case("body-ignored", {"hashed": lambda body: b""}),
    Case("body-crlf-to-lf", {"body": CRLF_BODY, "hashed": lambda body: body.replace(b"\r\n", b"\n")}),
    Case("body-lf-to-crlf", {"body": PRETTY, "hashed": lambda body: body.replace(b"\n", b"\r\n")}),
    Case("body-newline-dropped", {"body": PRETTY, "hashed": lambda body: body[:-1]}),
    Case("body-newline-added", {"hashed": lambda body: body + b"\n"}),
    Case("body-newlines-removed", {"body": PRETTY, "hashed": lambda body: body.replace(b"\n", b"")}),
    Case("body-newlines-lost", {"body": PRETTY.replace(b"\n", b""), "hashed": lambda body: PRETTY}),
    Case("body-bom-dropped", {"body": b"\xef\xbb\xbf" + BODY, "hashed": lambda body: body[3:]}),
    Case("json-compact", {"body": PRETTY, "hashed": compact}),
    Case("json-python", {"hashed": dumped(ensure_ascii=False)}),
    Case("json-pretty", {"hashed": dumped(ensure_ascii=False, indent=4)}),
    Case("json-sorted", {"hashed": dumped(ensure_ascii=False, sort_keys=True, separators=(",", ":"))}),
    Case("json-escaped", {"hashed": dumped(separators=(",", ":"))}),
    Case("json-slashes", {"hashed": lambda body: body.replace(b"/", b"\\/")}),
    Case("json-html-escaped", {"hashed": lambda body: body.replace(b"<", b"\\u003c").replace(b">", b"\\u003e")}),
    Case("body-gzip", {"body": gzip.compress(BODY, mtime=0), "hashed": gzip.decompress}),
    Case("json-nulls-dropped", {"hashed": lambda body: body.replace(b',"empty":null', b"")}),
    Case("body-latin-1", {"hashed": lambda body: body.decode().encode("latin-1")}),
    Case("digest-twice", {"hashed": lambda body: hashlib.sha256(body).digest()}),
    Case("digest-of-hex", {"hashed": lambda body: hashlib.sha256(body).hexdigest().encode()}),
)

DIGEST_CASES = (
    Case("digest-label", {"digest": text_digest("SHA-256", "sha512")}),
    Case("digest-weak", {"digest": text_digest("SHA-1", "sha1")}),
    Case("digest-name", {"digest": text_digest("SHA256", "sha256")}),
    Case("digest-bare", {"digest": lambda body: encode_base64(hashlib.sha256(body).digest())}),
    Case("digest-hex", {"digest": text_digest("SHA-256", "sha256", bytes.hex)}),
    Case(
        "digest-base64-of-hex",
        {"digest": text_digest("SHA-256", "sha256", lambda raw: encode_base64(raw.hex().encode()))},
    ),
    Case("digest-url-safe", {"digest": text_digest("SHA-512", "sha512", lambda raw: urlsafe_b64encode(raw).decode())}),
    Case("digest-in-colons", {"digest": text_digest("sha-256", "sha256", lambda raw: f":{encode_base64(raw)}:")}),
    Case("digest-in-lines", {"digest": text_digest("SHA-512", "sha512", wrapped)}),
    Case("digest-wrong-padding", {"digest": text_digest("SHA-256", "sha256", lambda raw: f"{encode_base64(raw)}=")}),
)  # fmt: skip

TARGET_CASES = (
    Case("target-without-query", {"signed_target": lambda value: value.partition("?")[0]}),
    Case("target-decoded", {"signed_target": decoded_path}),
    Case("target-plus", {"target": f"{TARGET}&name=Jonas+P", "signed_target": lambda value: value.replace("+", "%20")}),
    Case("target-parameters", {"target": f"{TARGET}&a=3", "signed_target": lambda v: v.replace("x=%2Fa&b=2&a=3", "a=3&b=2&x=%2Fa")}),
    Case("target-full-url", {"signed_target": lambda value: value.replace(" /", " https://api.bank.example/")}),
    Case("target-base-path-stripped", {"signed_target": lambda value: value.replace(" /psd2/v1", " ")}),
    Case("target-base-path-removed", {"target": f"/api/psd2/v1{TARGET}", "finish": lambda one: one._replace(target=TARGET)}),
    Case("target-slash", {"signed_target": lambda value: value.replace("?", "/?")}),
    Case("method-upper-case", {"signed_target": upper_method}),
)  # fmt: skip

LINE_CASES = (
    Case("header-missing", {"lines": without_line("date")}),
    Case("order", {"lines": sorted}),
    Case("header-added", {"lines": lambda lines: [*lines, ("content-type", "application/json")]}),
    Case("names-not-lower-case", {"lines": as_sent}),
    Case("colon-no-space", {"assemble": joined(colon=":")}),
    Case("value-digest-other", {"body": PRETTY, "lines": replaced("digest",
    lambda value: f"SHA-256={encode_base64(hashlib.sha256(compact(PRETTY)).digest())}")}),
)  # fmt: skip

STRING_CASES = (
    Case("string-newline-after", {"assemble": joined(after="\n")}),
    Case("string-crlf", {"assemble": joined("\r\n")}),
    Case("string-joined-otherwise", {"assemble": joined("")}),
    Case("hashed-first", {"string": lambda data: hashlib.sha256(data).digest()}),
    Case("hashed-first-as-hex", {"string": lambda data: hashlib.sha256(data).hexdigest().encode()}),
    Case("hashed-first-as-base64", {"string": lambda data: b64encode(hashlib.sha256(data).digest())}),
    Case("signed-body", {"string": lambda data: BODY}),
)  # fmt: skip

SIGNATURE_CASES = (
    Case("signature-url-safe", {"written": lambda raw: urlsafe_b64encode(raw + b"").decode()}, ("rsa",)),
    Case("signature-in-lines", {"written": wrapped}),
    Case("signature-hex", {"written": bytes.hex}),
    Case("signature-base64-of-hex", {"written": lambda raw: encode_base64(raw.hex().encode())}),
    Case("signature-wrong-padding", {"written": lambda raw: f"{encode_base64(raw)}="}, ("rsa",)),
    Case("signature-scheme", {"signer": bare_ecdsa}, ("ec",)),
    Case("signature-scheme", {"signer": pss()}, ("rsa",)),
    Case("signature-hash", {"signer": with_hash(hashes.SHA512())}),
    Case("signature-hash-weak", {"signer": with_hash(hashes.SHA1())}, ("rsa",)),
)  # fmt: skip


def renamed(old: str, new: str, write: Callable[[str], str] = str) -> Callable[[Message], Message]:
    """A header sent under another name, its value written otherwise; not sent at all where the new name is empty."""

    def finish(message: Message) -> Message:
        headers = [(new, write(value)) if name == old else (name, value) for name, value in message.headers]
        return message._replace(headers=tuple([header for header in headers if header[0]]))

    return finish


def form(text: str) -> dict[str, Any]:
    return {"template": text + ',headers="{names}",signature="{signature}"'}


CERTIFICATE = "TPP-Signature-Certificate"
HEADER_CASES = (
    Case("signature-form", form('keyId="{key_id}", algorithm = "{algorithm}"')),
    Case("signature-form", form("keyId=\"{key_id}\",algorithm='{algorithm}'")),
    Case("signature-form", form('Signature keyid="{key_id}",algorithm={algorithm}')),
    Case("signature-form", {"names": " ".join(COVERED).title().replace("(Request-Target)", "(request-target)")}),
    Case("signature-form", {"names": ", ".join(COVERED)}),
    Case("parameter-missing", {"covered": NEEDED, "template": 'keyId="{key_id}",headers="{names}",signature="{signature}"'}),
    Case("time-not-allowed", {**form('keyId="{key_id}",algorithm="{algorithm}",created=1780315200'),
        "names": f"{' '.join(COVERED)} (created)"}),
    Case("signature-missing", {"covered": NEEDED, "finish": renamed("Signature", "")}),
    Case("digest-replaced", {"covered": NEEDED, "finish": renamed("Digest", "Digest", lambda value: make_digest(b"else"))}),
    Case("certificate-missing", {"covered": NEEDED, "finish": renamed(CERTIFICATE, "")}),
    Case("certificate-header", {"covered": NEEDED, "finish": renamed(CERTIFICATE, "TPP-Signing-Certificate")}),
    Case("certificate-form", {"covered": NEEDED, "finish": renamed(CERTIFICATE, CERTIFICATE,
        lambda text: b64encode(text.encode()).decode())}),
    Case("uncovered", {"covered": NEEDED[:1] + NEEDED[2:]}),
)  # fmt: skip

SINGLE = (*BODY_CASES, *DIGEST_CASES, *TARGET_CASES, *LINE_CASES, *STRING_CASES, *SIGNATURE_CASES, *HEADER_CASES)
BY_NAME = {case.name: case for case in SINGLE}
