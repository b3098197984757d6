"""That a signature is missing is said beside everything that requests usually carry, and of nothing that may be one."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha512
from textwrap import wrap
from urllib.parse import quote

import pytest
from jws_signer import CARRIER, JWS, seal_jws, with_values, without
from test_diagnose_certificates import container
from test_diagnose_formats import AMAZON
from test_diagnose_places import NEEDED, explained, moved, names
from wrong_signer import seal_wrongly

from tppkit._encoding import encode_base64url
from tppkit.certificates import der
from tppkit.httpsig import Message
from tppkit.seals import PSD2_V1
from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki, certificate_pem


def some(size: int, name: str = "") -> bytes:
    """Bytes that look random, always the same."""
    return b"".join(sha512(f"{name} {number}".encode()).digest() for number in range(size // 64 + 1))[:size]


def jws_part(**values: object) -> str:
    return encode_base64url(json.dumps(values).encode())


def encrypted(**more: object) -> str:
    """A JSON Web Encryption whose key is agreed on, as opaque tokens and sessions are."""
    head = jws_part(alg="dir", enc="A256GCM", **more)
    return ".".join((head, "", *(encode_base64url(some(size)) for size in (12, 200, 16))))


def bare(message: Message, name: str = "Signature") -> Message:
    return message._replace(headers=tuple(one for one in message.headers if one[0] != name))


HEX = some(32).hex()
UUID = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"
TOKEN = f"{jws_part(alg='RS256', kid='1')}.{jws_part(iss='https://bank.example', exp=1780315200)}.{encode_base64url(some(256))}"
WRAPPED = ".".join(
    (
        jws_part(alg="RSA-OAEP-256", enc="A256GCM"),
        *(encode_base64url(some(size)) for size in (256, 12, 300, 16)),
    )
)
USUAL = [
    ("b3", f"{HEX[:32]}-{HEX[32:48]}-1-{HEX[48:]}"),
    ("uber-trace-id", f"{HEX[:32]}:{HEX[32:48]}:{HEX[48:]}:1"),
    ("traceparent", f"00-{HEX[:32]}-{HEX[32:48]}-01"),
    ("tracestate", "dd=s:2;o:rum;t.dm:-4;t.usr.id:baz64,congo=t61rcWkgMzE"),
    ("X-Amzn-Trace-Id", "Root=1-67891233-abcdef012345678912345678;Parent=53995c3f42cd8ad8;Sampled=1"),
    ("newrelic", b64encode(json.dumps({"v": [0, 1], "d": {"ty": "App", "tr": HEX, "ac": "190"}}).encode()).decode()),
    ("If-None-Match", f'"{HEX}", "{some(32, "2").hex()}"'),
    ("x-amz-content-sha256", HEX),
    ("X-Request-Hmac", HEX),
    ("X-Ids", f"{UUID}/{UUID}"),
    ("X-Ids", f"{UUID}, {UUID}, {UUID}"),
    ("TPP-Redirect-URI", f"https://tpp.example/psd2/callback/consents/{UUID}/authorisations"),
    ("TPP-Redirect-URI", f"https://tpp.example/openBanking/callbackOf/consents/{HEX}/authorisations/confirmation"),
    ("Referer", "https://tpp.example/a/../b"),
    ("X-Range", "1..5"),
    ("Authorization", f"Basic {b64encode(f'{HEX}:{HEX}'.encode()).decode()}"),
    ("Authorization", f"Bearer {TOKEN}"),
    ("Authorization", f"BEARER {encrypted()}"),
    ("Authorization", f"Bearer {encrypted(iss='https://tenant.example/')}"),
    ("Authorization", f"Bearer {WRAPPED}"),
    ("Authorization", f"Bearer {HEX}"),
    ("Cookie", f"AWSALB={b64encode(some(96)).decode()}; JSESSIONID={HEX[:32].upper()}; lang=en"),
    ("Cookie", f"token={TOKEN}"),
    ("Cookie", f"__Secure-next-auth.session-token={encrypted()}"),
    ("Cookie", f"__Secure-next-auth.session-token.0={encrypted()[:80]}; b={encrypted().rpartition('.')[0]}; c=1"),
    ("Cookie", "_ga=GA1.2.1234567890.1600000000; _gid=GA1.2.1.1"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"),
    ("User-Agent", "Dalvik/2.1.0 (Linux; U; Android 13; SM-G998B Build/TP1A.220624.014)"),
    ("Sec-CH-UA", '"Not_A Brand";v="8", "Chromium";v="120", "Google Chrome";v="120"'),
    ("Sec-CH-UA-Full-Version-List", '"Not_A Brand";v="8.0.0.0", "Chromium";v="120.0.6099.109", "Google Chrome";v="120.0.6099.109"'),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("Accept-Language", "lt-LT,lt;q=0.9,en-US;q=0.8,en;q=0.7,de-DE,de,fr-FR,fr,pl-PL,pl"),
    ("X-Forwarded-For", ", ".join(["2001:db8:85a3:8d3:1319:8a2e:370:7348"] * 4)),
    ("X-Forwarded-For", ", ".join(["203.0.113.195"] * 6)),
    ("Forwarded", 'for="[2001:db8:cafe::17]:4711";proto=https;by=203.0.113.43;host=bank.example'),
    ("Access-Control-Request-Headers", "content-type,digest,signature,tpp-signature-certificate,x-request-id,psu-ip-address"),
    ("PSU-Geo-Location", "GEO:52.506931;13.144558"),
    ("X-Digest", f"SHA-512={b64encode(some(64)).decode()},SHA-256={b64encode(some(32)).decode()}"),
    ("Repr-Digest", f"sha-512=:{b64encode(some(64)).decode()}:"),
    ("X-Body-Digest", some(64).hex()),
]  # fmt: skip


def missing_beside(message: Message, known: Pki) -> None:
    for certificates in ([], [known.qseal.certificate]):
        assert explained(diagnose_request(message, certificates=certificates)) == ["signature-missing"]
        by_jws = diagnose_request(message, profile=JWS, certificates=certificates)
        assert explained(by_jws) == ["certificate-header", "signature-missing"]


@pytest.mark.parametrize(("name", "value"), USUAL)
def test_that_it_is_missing_is_said_beside_a_usual_header(pki: Pki, name: str, value: str) -> None:
    missing_beside(bare(seal_wrongly(pki.qseal, covered=NEEDED)).with_headers((name, value)), pki)


def test_that_it_is_missing_is_said_beside_all_usual_headers(pki: Pki) -> None:
    missing_beside(bare(seal_wrongly(pki.qseal, covered=NEEDED)).with_headers(*USUAL), pki)


@pytest.mark.parametrize("kind", ["ec", "rsa"])
@pytest.mark.parametrize("name", ["X-Client-Cert", "X-Signature-Certificate", "X-Seal"])
def test_a_certificate_is_no_signature_in_whatever_form_it_stands(pkis: dict[str, Pki], kind: str, name: str) -> None:
    own = pkis[kind].qseal.certificate
    pem = certificate_pem(own).decode()
    texts = (
        b64encode(own.der).decode(), encode_base64url(own.der), f":{b64encode(own.der).decode()}:", " ".join(pem.split("\n")),
        pem.replace("\n", "\\n"), quote(pem), b64encode(pem.encode()).decode(), b64encode(own.der).decode()[:-40],
        ", ".join(b64encode(one.der).decode() for one in (own, pkis[kind].qseal_ca.certificate)), " ".join((2 * pem).split("\n")),
        f'Hash={some(32).hex()};Cert="{quote(pem)}";Chain="{quote(pem + certificate_pem(pkis[kind].qseal_ca.certificate).decode())}"',
        (pem + pem).replace("\n", "\\r\\n"), f'{{"certificate":"{b64encode(own.der).decode()}"}}'.replace("/", "\\/"),
    )  # fmt: skip
    message = bare(seal_wrongly(pkis[kind].qseal, covered=NEEDED))
    for text in texts:
        told = diagnose_request(message.with_headers((name, text)), certificates=[own])
        assert explained(told) == ["signature-missing"]


HIDDEN: dict[str, Callable[[bytes], str]] = {
    "base64": lambda raw: b64encode(raw).decode(),
    "base64url": lambda raw: encode_base64url(raw),
    "unpadded": lambda raw: b64encode(raw).decode().rstrip("="),
    "CloudFront": lambda raw: b64encode(raw).decode().replace("+", "-").replace("/", "~").replace("=", "_"),
    "percent": lambda raw: quote(b64encode(raw).decode(), safe=""),
    "JSON": lambda raw: b64encode(raw).decode().replace("/", "\\/"),
    "plus lost": lambda raw: b64encode(raw).decode().replace("+", " "),
    "in lines": lambda raw: " ".join(wrap(b64encode(raw).decode(), 60)),
    "in short lines": lambda raw: " ".join(wrap(urlsafe_b64encode(raw).decode(), 20, break_on_hyphens=False)),
    "twice": lambda raw: b64encode(b64encode(raw)).decode(),
    "base64 of hex": lambda raw: b64encode(raw.hex().encode()).decode(),
    "hex": lambda raw: raw.hex(),
    "hex by 4": lambda raw: " ".join(wrap(raw.hex(), 4)),
    "hex by 8": lambda raw: ", ".join(wrap(raw.hex().upper(), 8)),
    "BitConverter": lambda raw: raw.hex("-").upper(),
    "colons": lambda raw: raw.hex(":"),
    "0x": lambda raw: ", ".join(f"0x{one:02x}" for one in raw),
    "escapes": lambda raw: "".join(f"\\x{one:02x}" for one in raw),
    "Arrays.toString": lambda raw: str([one - 256 if one > 127 else one for one in raw]),
    "numbers": lambda raw: ";".join(map(str, raw)),
    "an object": lambda raw: json.dumps(dict(enumerate(raw))),
    "a word before": lambda raw: f"Seal {b64encode(raw).decode()}",
    "behind a token": lambda raw: f"{encrypted()} {b64encode(raw).decode()}",
    "behind an address": lambda raw: f"https://tpp.example/key {b64encode(raw).decode()}",
    "in two parts": lambda raw: f"{jws_part(alg='ES256')}. .{encode_base64url(raw)[:60]}",
    "a parameter": lambda raw: f"AWS4-HMAC-SHA256 SignedHeaders=host, Signature={raw[:32].hex()}",
}  # fmt: skip
PLACES = [
    "X-Seal", "X-Cert-Signature", "TPP-Certificate-Signature", "TPP-Certificate-Sig", "TPP-Signature-Certificate", "X-Digest", "X-MAC",
    "Authorization",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", HIDDEN)
def test_what_may_be_one_is_not_told_as_missing(pki: Pki, way: str, place: str) -> None:
    message = bare(seal_wrongly(pki.qseal, covered=NEEDED))
    hashed = {"base64", "base64url", "unpadded", "percent", "JSON", "in lines", "in short lines", "plus lost", "twice"}
    for name, raw in (("ECDSA in DER", b"\x30\x45" + some(69)), ("Ed25519", some(64, "1")), ("RSA", some(256))):
        if place == "X-Digest" and name == "Ed25519" and way in {*hashed, "base64 of hex", "hex"}:
            continue  # which may be a SHA-512
        for profile in (PSD2_V1, JWS, AMAZON):
            hidden = message.with_headers((place, HIDDEN[way](raw)))
            told = diagnose_request(hidden, profile=profile, certificates=[pki.qseal.certificate])
            assert told.outcome is Outcome.UNEXPLAINED, (name, told)
            assert "signature-missing" not in names(told)


def test_a_signature_among_certificates_is_not_overlooked(pki: Pki) -> None:
    message = bare(seal_wrongly(pki.qseal, covered=NEEDED))
    own = pki.qseal.certificate.der
    cms = container(own, der.write_element(der.OCTET_STRING, some(70)))
    one_line, signature = b64encode(own).decode(), b64encode(some(70)).decode()
    pem = " ".join(certificate_pem(pki.qseal.certificate).decode().split("\n"))
    lines = (f"{' '.join(wrap(one_line, width))}, {signature}" for width in (64, 76))
    cut = (f"{one_line[:300]} {signature}", f"{one_line[:-90]}\\n{signature}")
    for text in (
        *cut,
        f"{one_line},{signature}",
        pem + signature,
        f"{pem}, {signature}",
        *lines,
        b64encode(cms).decode(),
    ):
        told = diagnose_request(message.with_headers(("X-Client-Cert", text)))
        assert (told.outcome, "signature-missing" in names(told)) == (Outcome.UNEXPLAINED, False)


@pytest.mark.parametrize("place", ["Authorization", "Cookie"])
@pytest.mark.parametrize("token", [encrypted(), WRAPPED, encrypted()[:60]], ids=["dir", "wrapped", "cut off"])
def test_an_encryption_is_not_read_in_place_of_a_signature(pki: Pki, place: str, token: str) -> None:
    before = (place, f"Bearer {token}" if place == "Authorization" else f"s={token}")
    for known in ([], [pki.qseal.certificate]):
        for steps, more in (({}, []), ({"lines": "{}\n".format}, ["string-newline-after"])):
            message = moved(seal_jws(pki, **steps), CARRIER, "X-Seal")
            first = message._replace(headers=(before, *message.headers))
            assert explained(diagnose_request(first, profile=JWS, certificates=known)) == ["signature-carrier", *more]
        none = bare(seal_jws(pki), CARRIER).with_headers(before)
        assert explained(diagnose_request(none, profile=JWS, certificates=known))[-1] == "signature-missing"
        cut = moved(seal_jws(pki), CARRIER, CARRIER, lambda value: value[:300]).with_headers(before)
        assert names(diagnose_request(cut, profile=JWS, certificates=known)) == ["jws-cut"]


def test_what_is_left_of_a_signature_does_not_hide_that_a_certificate_header_is_missing(pki: Pki) -> None:
    message = bare(seal_wrongly(pki.qseal, covered=NEEDED), "TPP-Signature-Certificate")
    whole = dict(seal_jws(pki).headers)[CARRIER]
    for left in (f"%22{whole[-200:]}%22", ". ."):  # too short for a certificate
        told = diagnose_request(message.with_headers(("X-Seal", left)), certificates=[pki.qseal.certificate])
        assert explained(told) == ["certificate-missing"]
    in_x5c = seal_jws(pki, header=without("x5c")).with_headers(("X-Seal", f"%22{whole}%22"))
    told = diagnose_request(in_x5c, profile=JWS, certificates=[pki.qseal.certificate])
    assert "certificate-missing" not in names(told)


def test_a_signature_whose_header_has_a_parameter_of_that_name_is_none_the_less_one(pki: Pki) -> None:
    message = moved(seal_jws(pki, header=with_values(enc="utf-8")), CARRIER, "X-Seal")
    assert explained(diagnose_request(message, profile=JWS))[0] == "signature-carrier"
