"""What is fuzzed: every reader of foreign bytes, one row each. Anything but a `FormatError` that escapes is a fault.

Each row has seeds: good inputs, and the malformed ones that are known, from which a fuzzer starts.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PublicFormat, pkcs12
from cryptography.x509 import ocsp

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    explain_callback,
    load_callback_key,
    sign_callback,
    verify_callback,
)
from tppkit.certificates import EidasCertificate, Use, check_certificate, der, oids
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.identifier import parse_organization_identifier
from tppkit.certificates.names import parse_name
from tppkit.certificates.qcstatements import read_qc_statements
from tppkit.certificates.sources import read_sources
from tppkit.certificates.write_qcstatements import write_psd2, write_qc_statements
from tppkit.cli.curl_command import parse_curl
from tppkit.cli.har_file import parse_har
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError, SignatureRejected, VerificationError
from tppkit.evidence.record import EvidenceRecord
from tppkit.httpsig.cavage import Reading, parse_signature_header
from tppkit.httpsig.components import Component, Origin, component_value
from tppkit.httpsig.digest import parse_content_digest, parse_digest
from tppkit.httpsig.http_date import parse_http_date
from tppkit.httpsig.jws import make_detached_jws, make_jws_header, parse_detached_jws
from tppkit.httpsig.rfc9421 import make_signature_base, parse_signature_fields, request_values
from tppkit.httpsig.structured import parse_dictionary, write_member
from tppkit.httpsig.wire import parse_request
from tppkit.protocol.gateway.endpoints import GATEWAY, REPORT, VAULT
from tppkit.protocol.gateway.query import parse_query
from tppkit.protocol.gateway.search import DEFAULT_SORT, read_cursor, write_cursor
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginRequest, PaymentOrder, Transaction
from tppkit.protocol.reports import CsvRows
from tppkit.qr import Login, Payment, ScanLink, make_picture, parse_code, read_texts
from tppkit.seals import PROFILES, CertificateForm, KeyIdForm, Message, Seal, SealProfile, sign_request
from tppkit.seals.certificate_header import read_certificate as read_sent_certificate
from tppkit.seals.certificate_header import write_certificate
from tppkit.seals.diagnose import diagnose_request
from tppkit.seals.form_data import uploaded_file
from tppkit.seals.key_id import verify_key_id
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Pki, certificate_pem, make_pki
from tppkit.testpki.ocsp import answer_ocsp
from tppkit.testpki.requests import make_request
from tppkit.testpki.timestamps import answer_timestamp
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.web import AsgiSource, ProxyForm, TrustedProxy, peer_certificate

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Target(NamedTuple):
    """One reader.

    Attributes:
        run: reads the bytes; lets `FormatError` pass unseen and everything else escape.
        seeds: good and nearly good inputs.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


@cache
def pki() -> Pki:
    """The same test PKI for all seeds."""
    return make_pki(at=AT, seed=1)


def read_certificate(data: bytes) -> None:
    """A certificate in DER, every fact of it, and its judgement."""
    with suppress(FormatError):
        certificate = EidasCertificate.from_der(data)
        (
            str(certificate.subject),
            certificate.subject.rfc4514(),
            certificate.findings,
            certificate.roles,
            hash(certificate),
        )
        for use in Use:
            check_certificate(certificate, as_=use, at=AT)
        certificate.public_key  # noqa: B018  # may not be readable


def read_request(data: bytes) -> None:
    """A certificate signing request in DER."""
    with suppress(FormatError):
        request = EidasRequest.from_der(data)
        str(request.subject), request.findings, request.roles


def read_any_source(data: bytes) -> None:
    """Certificates in whatever form, PKCS#12 included."""
    with suppress(FormatError):
        read_sources(data)


def read_statements(data: bytes) -> None:
    """QcStatements: what is read without a finding says the same when it is written again, byte for byte."""
    read = read_qc_statements(data)
    if not read.findings and read.psd2 is not None and write_psd2(read.psd2) not in data:
        raise AssertionError("a PSD2 statement that is not written so was read without a finding")


def text_target(parse: Callable[[str], object]) -> Callable[[bytes], None]:
    """A reader of text, given bytes."""

    def run(data: bytes) -> None:
        with suppress(FormatError):
            parse(data.decode("utf-8", "surrogateescape"))

    return run


def bytes_target(parse: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """A reader of bytes."""

    def run(data: bytes) -> None:
        with suppress(FormatError):
            parse(data)

    return run


def certificates() -> list[bytes]:
    """Certificates of the test PKI."""
    return [issued.certificate.der for issued in pki().issued]


def requests() -> list[bytes]:
    """A request with the extensions of a QWAC."""
    return [make_request(pki().provider, "qwac", pki().qwac.key)]


def sources() -> list[bytes]:
    """One certificate in every form."""
    leaf = pki().qwac.certificate
    pem = certificate_pem(leaf)
    bundle = pkcs12.serialize_key_and_certificates(
        b"qwac", pki().qwac.key, leaf.x509, [pki().root.certificate.x509], NoEncryption()
    )
    encoded = base64.b64encode(leaf.der)
    return [pem, pem * 2, encoded, b":" + encoded + b":", pem.replace(b"\n", b"%0A").replace(b" ", b"%20"), bundle]


def statements() -> list[bytes]:
    """Good statements, and the three malformed encodings of the field."""
    psd2 = pki().qwac.certificate.qc.psd2
    good = write_qc_statements(qc_type="web", psd2=psd2, pds=pki().qwac.certificate.qc.pds)
    alone = write_qc_statements(qc_type="web", psd2=psd2, pds=(), compliance=False, semantics=None)
    bare = alone[der.read_children(alone, der.read_whole(alone, tag=der.SEQUENCE))[-1].offset :]
    null = der.write_element(
        der.SEQUENCE, der.write_element(der.SEQUENCE, der.write_oid(oids.QC_COMPLIANCE), b"\x05\x00")
    )
    return [good, alone, bare, null]


def sealed(profile: SealProfile = PSD2_V1) -> Message:
    """A request sealed in a dialect."""
    texts = {KeyIdForm.CLIENT_ID: "client-4711", KeyIdForm.URL: "https://tpp.example/seal.pem"}
    seal = Seal.for_key(
        pki().qseal.certificate, pki().qseal.key, profile=profile, key_id=texts.get(profile.key_id.form)
    )
    headers = (
        ("Host", "bank.example"), ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"), ("Date", "Mon, 01 Jun 2026 12:00:00 GMT"),
        ("Content-Type", "application/json"), ("TPP-Request-ID", "1"), ("X-ING-ReqID", "1"), ("X-Amz-Access-Token", "t"),
    )  # fmt: skip
    message = Message("POST", "/psd2/v1/payments/sepa-credit-transfers", headers, b"{}")
    return sign_request(message, seal=seal, at=AT)


def raw_requests() -> list[bytes]:
    """The same as bytes on the wire."""
    return [on_the_wire(sealed())]


def on_the_wire(message: Message) -> bytes:
    """A request as it is sent."""
    head = "".join(f"{name}: {value}\r\n" for name, value in message.headers)
    return f"{message.method} {message.target} HTTP/1.1\r\n{head}\r\n".encode() + message.body


def read_signature_input(data: bytes) -> None:
    """A Signature-Input field, and what it covers of a request."""
    with suppress(FormatError, SignatureRejected):
        parameters, _ = parse_signature_fields(data.decode("latin-1"), "sig1=:YQ==:", label="sig1")
        message = Message("GET", "/p?a=1&b=%ff", (("Date", "x"), ("X", "a=1, b=(c)")))
        make_signature_base(parameters, request_values(message, origin=Origin("https", "bank.example")))


def read_target(data: bytes) -> None:
    """A target, and every component that comes of it."""
    message = Message("GET", data.decode("latin-1"))
    for component in (Component("@path"), Component("@query"), Component("@query-param", (("name", "a"),))):
        with suppress(FormatError, SignatureRejected):
            component_value(message, component)


def read_dictionary(data: bytes) -> None:
    """A structured field: what is read is read alike when it is written again."""
    with suppress(FormatError):
        members = parse_dictionary(data.decode("latin-1"), what="the field")
        text = ", ".join(f"{name}={write_member(member)}" for name, member in members.items())
        if len(text) <= len(data) and parse_dictionary(text, what="the field") != members:
            raise AssertionError("a dictionary is read otherwise when it is written again")


def detached_jws() -> list[bytes]:
    """A detached signature with a certificate."""
    header = make_jws_header(
        ("(request-target)", "digest"), algorithm="ES256", signed_at=AT, certificates=[pki().qseal.certificate.der]
    )
    over_body = make_jws_header(
        ("(body)",), algorithm="ES256", signed_at=AT, private={"http://a.example/b": "c"}, b64=False
    )
    return [make_detached_jws(one, bytes(64)).encode() for one in (header, over_body)]


def read_form(data: bytes) -> None:
    """A form: its file is a part of it."""
    with suppress(FormatError):
        if (file := uploaded_file(data, None)) is not None and file not in data:
            raise AssertionError("the file is not in the form")


def hars() -> list[bytes]:
    """The same in a HAR file."""
    message = sealed()
    headers = [{"name": name, "value": value} for name, value in message.headers]
    request = {
        "method": message.method,
        "url": f"https://a{message.target}",
        "headers": headers,
        "postData": {"text": "{}"},
    }
    return [json.dumps({"log": {"entries": [{"request": request}]}}).encode()]


def curls() -> list[bytes]:
    """The same for curl."""
    message = sealed()
    options = " ".join(f"-H '{name}: {value}'" for name, value in message.headers)
    return [
        f"curl https://a{message.target} {options} -d $'{{\\n}}'".encode(),
        b'curl --globoff "https://a/?b" \\\n --data-urlencode a=b -b c=d',
    ]


def read_and_diagnose(data: bytes) -> None:
    """A request, and what is wrong with it in the dialect that its first byte chooses: a diagnosis never raises."""
    profile = tuple(PROFILES.values())[data[0] % len(PROFILES)] if data else PSD2_V1
    with suppress(FormatError):
        message = parse_request(data[1:], as_found=True)
        diagnose_request(message, certificates=[pki().qseal.certificate], profile=profile, max_work=5_000)


def diagnosed_requests() -> list[bytes]:
    """For every dialect its number and a request that is sealed in it, where it has an algorithm for the key."""
    found = []
    for number, profile in enumerate(PROFILES.values()):
        with suppress(FormatError):
            found.append(bytes([number]) + on_the_wire(sealed(profile)))
    return found


def read_trusted_list(data: bytes) -> None:
    """A list before and through its verification; nobody's signature is expected."""
    with suppress(FormatError, VerificationError):
        UnverifiedList(data, source="list").verify(signers=())


def trusted_lists() -> list[bytes]:
    """The frame of a list, with and without the frame of a signature."""
    scheme = "<SchemeInformation><TSLSequenceNumber>1</TSLSequenceNumber></SchemeInformation>"
    signature = (
        '<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><SignedInfo>'
        '<CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/><SignatureMethod/><Reference URI=""/>'
        "</SignedInfo></Signature>"
    )
    frame = (
        '<?xml version="1.0"?><TrustServiceStatusList xmlns="http://uri.etsi.org/02231/v2#">{}</TrustServiceStatusList>'
    )
    return [frame.format(content).encode() for content in (scheme, scheme + signature)]


def ocsp_requests() -> list[bytes]:
    """A request about one certificate, with and without a nonce."""
    builder = ocsp.OCSPRequestBuilder()
    builder = builder.add_certificate(pki().qwac.certificate.x509, pki().qwac_ca.certificate.x509, hashes.SHA256())
    nonced = builder.add_extension(x509.OCSPNonce(b"0123456789"), critical=False)
    return [one.build().public_bytes(Encoding.DER) for one in (builder, nonced)]


def answer_status(data: bytes) -> None:
    """Every OCSP request gets a response."""
    answer_ocsp(pki(), data, at=pki().not_before)


def answer_stamp(data: bytes) -> None:
    """Every request for a time stamp gets a response."""
    answer_timestamp(pki(), data, at=pki().not_before, serial=1)


def timestamp_requests() -> list[bytes]:
    """A request for a time stamp with policy, nonce and certificate."""
    sha256 = der.write_element(der.SEQUENCE, der.write_oid("2.16.840.1.101.3.4.2.1"))
    imprint = der.write_element(der.SEQUENCE, sha256, der.write_element(der.OCTET_STRING, bytes(32)))
    further = der.write_oid("1.2.3"), der.write_integer(7), b"\x01\x01\xff"
    return [der.write_element(der.SEQUENCE, der.write_integer(1), imprint, *further)]


def read_loosely(data: bytes) -> None:
    """A Signature header with everything that any dialect or draft tolerates; what is strict reads the same."""
    text = data.decode("latin-1")
    with suppress(FormatError):
        strict = parse_signature_header(text)
        if parse_signature_header(text, reading=Reading(any_case=True, bare_signature=True)) != strict:
            raise AssertionError("the tolerant reader read another thing")
    with suppress(FormatError):
        parse_signature_header(text, reading=Reading(any_case=True, bare_signature=True, absent_headers=("date",)))


def read_key_id(data: bytes) -> None:
    """A keyId in the style of every dialect."""
    for style in {row.key_id for row in PROFILES.values()}:
        with suppress(FormatError, SignatureRejected):
            verify_key_id(data.decode("latin-1"), pki().qseal.certificate, style=style)


def read_certificate_header(data: bytes) -> None:
    """A header with a certificate, in each form."""
    for form in CertificateForm:
        with suppress(FormatError):
            read_sent_certificate(data.decode("latin-1"), form)


def certificate_headers() -> list[bytes]:
    """One certificate in each form."""
    return [write_certificate(pki().qseal.certificate, form).encode() for form in CertificateForm]


def read_code(data: bytes) -> None:
    """A code's text: what is read is written so that it is read the same again."""
    with suppress(FormatError):
        code = parse_code(data.decode("utf-8", "surrogateescape"))
        if parse_code(code.text) != code:
            raise AssertionError("a code is not read as it is written")


def codes() -> list[bytes]:
    """A code of each kind."""
    payment = Payment(account="+37060000000", name="Žalia", currency="EUR", amount=Decimal("12.50"), message="4711")
    iban = Payment(account="LT121000011101001000", name="", currency="EUR", amount=Decimal(1))
    login = Login("https://[2001:db8::1]:8443/login/%C5%BE?a=b")
    return [code.text.encode() for code in (payment, iban, login, ScanLink("https://legacy.example", payment.text))]


def code_pictures() -> list[bytes]:
    """A picture of one."""
    return [make_picture(Login("https://shop.example/login")).png(scale=2)]


CALLBACK_URL = "https://tpp.example/a%2Fb/"


@cache
def callback_key() -> ec.EllipticCurvePrivateKey:
    """The key that signs callbacks."""
    key = pki().callback_keys["callback-live"]
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


@cache
def callback_receiver() -> CallbackReceiver:
    """Takes any signed object at its addresses."""
    addresses = [CallbackAddress(CALLBACK_URL + token, CallbackKind.OTHER) for token in ("", "{token}")]
    return CallbackReceiver(addresses, keys=[CallbackKey("live", callback_key().public_key())])


def read_callback(data: bytes) -> None:
    """A callback as a server reads it off the wire, and why it is refused."""
    with suppress(FormatError):
        received = Message(*parse_request(data))
        with suppress(CallbackRejected):
            verify_callback(received, at=AT, receiver=callback_receiver())
        explain_callback(received, at=AT, receiver=callback_receiver())


def read_signed_body(data: bytes) -> None:
    """Bodies of the legacy interface: events, orders, and what a login is answered."""
    for model in (AccessGranted, Transaction, LoginConfirmed, PaymentOrder, LoginRequest):
        with suppress(FormatError):
            event = model.from_wire(data)
            model.from_wire(event.to_wire())


def read_callback_key(data: bytes) -> None:
    """A published key."""
    with suppress(ConfigurationError):
        load_callback_key(data, name="live")


def callbacks() -> list[bytes]:
    """A good callback, and a login GET with a token in absolute form."""
    seeds = []
    for method, url, body in (("POST", CALLBACK_URL, b'{"id":1}'), ("GET", CALLBACK_URL + "a1" * 12, b"")):
        signed = sign_callback(callback_key(), request_id="r-1", method=method, url=url, body=body, deterministic=True)
        head = "".join(f"{name}: {value}\r\n" for name, value in signed)
        target = url if method == "GET" else url.removeprefix("https://tpp.example")
        seeds.append(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return seeds


def callback_keys() -> list[bytes]:
    """The public key as PEM and DER."""
    public = callback_key().public_key()
    return [public.public_bytes(form, PublicFormat.SubjectPublicKeyInfo) for form in (Encoding.PEM, Encoding.DER)]


def header(name: str) -> Callable[[], list[bytes]]:
    """One header of the sealed request."""
    return lambda: [value.encode() for key, value in sealed().headers if key.lower() == name]


def read_forwarded(data: bytes) -> None:
    """A proxy's header with its client's certificate: the first byte says of which proxy, the rest is the value."""
    form = tuple(ProxyForm)[data[0] % len(ProxyForm)] if data else ProxyForm.NGINX
    proxy = TrustedProxy("unix", form=form)
    with suppress(FormatError, CertificateRejected):
        source = AsgiSource({"headers": [(proxy.header.encode(), data[1:])], "client": None})
        peer_certificate(source, trusted_proxies=[proxy])


def forwarded() -> list[bytes]:
    """What each proxy sends for a QWAC."""
    qwac = pki().qwac.certificate
    escaped, encoded = quote(certificate_pem(qwac).decode(), safe="").encode(), base64.b64encode(qwac.der)
    envoy = b'By=a;URI=;Subject="CN=\\"a\\"";Hash=%s;Cert="%s"' % (qwac.sha256.encode(), escaped)
    return [b"\0" + escaped, b"\1" + encoded, b"\2" + envoy, b"\2Cert=a,By=b", b"\3:" + encoded + b":"]


def read_search(data: bytes) -> None:
    """A query, which reads the same again as it is written, and a cursor."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(FormatError):
        query = parse_query(text)
        if parse_query(str(query)) != query:
            raise AssertionError("a query is not read as it is written")
    with suppress(FormatError):
        read_cursor(text, size=100, sort=DEFAULT_SORT)


def read_gateway_body(data: bytes) -> None:
    """The body of the endpoint that the first byte chooses, as request and as answer; a report arrives in two chunks."""
    rows = (*GATEWAY.endpoints, *VAULT.endpoints)
    row = rows[data[0] % len(rows)] if data else rows[0]
    with suppress(FormatError):
        row.request.read(data[1:], tolerant=False)
    with suppress(FormatError):
        if isinstance(row.answer, CsvRows):
            reader = row.answer.reader()
            for chunk in (data[1:20], data[20:]):
                reader.feed(chunk)
            reader.end()
        else:
            row.whole.read(data[1:], tolerant=True)


def gateway_bodies() -> list[bytes]:
    """For every endpoint the first byte that chooses it, and a body with fields of all of them."""
    uuid = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"
    details = {
        "one_click_type": "first",
        "card_expiry": "122030",
        "external_authentication_details": {"methodUsed": True},
    }
    attempt = {"id": uuid, "status": "accepted", "capture_mode": "manual", "payment_method_details": details}
    body = {
        "id": uuid, "status": "new", "currency": "EUR", "amount": 1250, "created": "2026-01-01T00:00:00Z", "transactions": [attempt],
        "expiration_period": "PT1H", "payment_methods": ["card"], "return_url": "https://a.example/", "customer": {"country": "LV"},
        "merchant_order_id": "4711", "description": "d", "query": "*", "size": 1, "vault_token": uuid, "setup_token": uuid,
        "cvc": "123", "pan": "4111111111111111", "expiry": "122030", "truncated_pan": "411111******1111", "orders": {"new": [uuid]},
    }  # fmt: skip
    seeds = [json.dumps(body).encode(), json.dumps([body]).encode(), json.dumps({"orders": [body]}).encode()]
    seeds += [",".join(REPORT.columns).encode() + b'\n1,"a\nb"' + b"," * 20 + b"\n"]
    return [bytes([number]) + seed for number in range(len(GATEWAY.endpoints) + 1) for seed in seeds]


def texts(*values: str) -> Callable[[], list[bytes]]:
    """Seeds that are texts."""
    return lambda: [value.encode() for value in values]


# fmt: off
TARGETS: Mapping[str, Target] = MappingProxyType({
    "certificate": Target(read_certificate, certificates),
    "request": Target(read_request, requests),
    "source": Target(read_any_source, sources),
    "qcstatements": Target(read_statements, statements),
    "name": Target(text_target(parse_name), texts("CN=a\\,b+O=c,C=LT", "2.5.4.97=#0c03616263,CN=\\C4\\8D", "CN=")),
    "organization-identifier": Target(
        text_target(parse_organization_identifier), texts("PSDLT-BL-LB000000", "VATDE-1", "LEIXG-AEYE00EKXESVZUUEBP67", "xx:DE-1")),
    "signature-header": Target(text_target(parse_signature_header), header("signature")),
    "loose-signature-header": Target(read_loosely, header("signature")),
    "key-id": Target(read_key_id, texts("SN=9FA1,CA=CN=A%20B,C=DE", "SN=9fa1,CA=CN=A,2.5.4.97=#0c0161", "40865", "https://a.example/x")),
    "certificate-header": Target(read_certificate_header, certificate_headers),
    "http-date": Target(text_target(parse_http_date), texts("Tue, 15 Nov 1994 08:12:31 GMT")),
    "digest-header": Target(text_target(parse_digest), texts("SHA-256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")),
    "signature-input": Target(
        read_signature_input, texts('sig1=("@method" "x";key="b" "date";bs "@query-param";name="a");created=1;alg="ed25519"')),
    "query": Target(read_target, texts("/p?a=%C3%A4+b&c=d&a", "/p?a=1")),
    "structured-field": Target(read_dictionary, texts('a=("x";p  y);q=1, b=:YQ==:, c;d=?0, e=-7, f="\\""')),
    "content-digest": Target(text_target(parse_content_digest), texts("sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")),
    "detached-jws": Target(text_target(parse_detached_jws), detached_jws),
    "form-data": Target(read_form, texts('--b\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n\r\nx\r\n--b--\r\n')),
    "raw-request": Target(bytes_target(parse_request), raw_requests),
    "har-request": Target(bytes_target(parse_har), hars),
    "curl-request": Target(bytes_target(parse_curl), curls),
    "diagnosed-request": Target(read_and_diagnose, diagnosed_requests),
    "trusted-list": Target(read_trusted_list, trusted_lists),
    "ocsp-request": Target(answer_status, ocsp_requests),
    "timestamp-request": Target(answer_stamp, timestamp_requests),
    "qr-code": Target(read_code, codes),
    "qr-picture": Target(bytes_target(read_texts), code_pictures),
    "callback": Target(read_callback, callbacks),
    "callback-event": Target(read_signed_body, texts(
        '{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2026-12-01 12:00:00"}', '{"id":7,"name":"Jonas","code":null}',
        '{"id":"T","ver":1,"timeStamp":1,"tlc":"posted","acc":"a","amount":["EUR-1.5"],"fee":["EUR 1"],"x":[1e5]}')),
    "callback-key": Target(read_callback_key, callback_keys),
    "search-query": Target(read_search, texts(
        '(a:"x \\"y" OR NOT b.c:[-5 TO *]) AND *', "created:[2026-01-01T10:00:00+02:00 TO 2026-02-01]",
        write_cursor("a", "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01", size=100, sort=DEFAULT_SORT))),
    "gateway-body": Target(read_gateway_body, gateway_bodies),
    "proxy-header": Target(read_forwarded, forwarded),
    "evidence-record": Target(bytes_target(EvidenceRecord.from_line), texts(json.dumps({"schema": "psd2.evidence/1", "seq": 0}))),
})
# fmt: on
