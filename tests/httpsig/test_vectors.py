"""Vectors that others published: the drafts' own, other implementations', and those that must be refused.

What is compared with the drafts is the signing string and, under it, the published signature. Their RSA keys have 1024 bits
and some keys are of kinds that no algorithm here has, so those signatures are verified with `cryptography` itself.

Of RFC 9421's own examples a request is verified whole. Of answers, and of examples in the running text, the message is not at
hand or no request: there the signature base is rebuilt from the printed lines, and the signature verified over it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from vectors import Vector, load

from refusals import refused
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig import make_digest, make_signing_string, message_components, verify_digest
from tppkit.httpsig.algorithms import ALGORITHMS, RFC9421, make_verifiers, verify_signature
from tppkit.httpsig.cavage import DRAFT_10, DRAFT_12, STRICT, Reading, parse_signature_header
from tppkit.httpsig.components import Component, Origin
from tppkit.httpsig.digest import make_content_digest, verify_content_digest
from tppkit.httpsig.rfc9421 import (
    SignatureInput,
    answer_values,
    make_signature_base,
    make_signature_fields,
    parse_signature_fields,
    request_values,
    verify_message_signature,
)
from tppkit.httpsig.wire import parse_request
from tppkit.message import Answer, Message

pytestmark = pytest.mark.shared

# The first two have RSA signatures over (created), which -12 itself forbids; the last one is a string without header.
WITH_TIMES = frozenset({"cavage12-c-all-authorization", "cavage12-c-all-signature", "cavage12-2.3-signing-string"})
# Without an algorithm parameter only the key's metadata can say that it must not cover (created); profiles demand the parameter.
REFUSED_BY_ITS_KEY = frozenset({"ccg-neg-created"})
# Why no algorithm here verifies with the key of a vector.
REFUSED_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "key.weak": ("cavage10-c-", "cavage12-c-", "httpsig-py-", "ccg-rsa-signed"),  # RSA of 1024 bits
        "key.unsupported": ("ccg-ecdsa-signed",),  # secp256k1
    }
)


def message_of(vector: Vector) -> Message:
    """The request as it came over the wire, read by the reader of raw requests: folded lines, empty values and all."""
    request = vector["request"]
    headers = "".join(f"{name}: {value}\r\n" for name, value in request["headers"] if name != "Content-Length")
    head = f"{request['method']} {request['target']} HTTP/1.1\r\n{headers}".replace("\n ", "\r\n ")
    message = parse_request(f"{head}\r\n{request['body'] or ''}".encode())
    lengths = [(name, value) for name, value in request["headers"] if name == "Content-Length"]
    return message.with_headers(*lengths)  # some vectors have a length and no body


def signing_string_of(vector: Vector) -> str:
    times = {f"({name})": str(value) for name, value in (vector.get("params") or {}).items()}
    components, _ = message_components(message_of(vector))
    return make_signing_string(vector["covered"], {**components, **times}).decode("latin-1")


def published_signature_holds(vector: Vector) -> bool:
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    signature, data = b64decode(vector["expected_signature"]), vector["expected_signing_string"].encode()
    try:
        match key:
            case rsa.RSAPublicKey():
                key.verify(signature, data, padding.PKCS1v15(), SHA256())
            case ec.EllipticCurvePublicKey():
                key.verify(signature, data, ec.ECDSA(SHA256()))
            case ed25519.Ed25519PublicKey():
                key.verify(signature, data)
            case _:
                raise AssertionError(f"{vector['id']} has a key that this test cannot use")
    except InvalidSignature:
        return False
    return True


def check_string(vector: Vector) -> None:
    assert signing_string_of(vector) == vector["expected_signing_string"]


def check_key(vector: Vector) -> None:
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    expected = next((code for code, ids in REFUSED_KEYS.items() if vector["id"].startswith(ids)), None)
    if expected is None:
        assert make_verifiers(key, names=ALGORITHMS)
    else:
        with refused(FormatError, expected):
            make_verifiers(key, names=ALGORITHMS)


def header_value(vector: Vector) -> str:
    return re.sub(r"^((Authorization|Signature): )?(Signature )?", "", vector["signature_header"])


def check_header(vector: Vector) -> None:
    """The published header says what the vector says, read with the default of its draft."""
    if not vector.get("signature_header"):
        return
    reading = DRAFT_12 if vector["id"].startswith("cavage12") and "default" not in vector["id"] else DRAFT_10
    if vector["id"] in WITH_TIMES:
        with refused(FormatError, "signature.time-not-allowed"):
            parse_signature_header(header_value(vector), reading=reading)
        return
    parameters = parse_signature_header(header_value(vector), reading=reading)
    assert list(parameters.headers) == vector["covered"]
    assert parameters.signature == b64decode(vector["expected_signature"])


def check_signature(vector: Vector) -> None:
    check_string(vector)
    check_key(vector)
    check_header(vector)
    assert published_signature_holds(vector) is (vector["expect"] == "valid")


def check_refused(vector: Vector) -> None:
    (value,) = message_of(vector).values("Authorization")
    for reading in (STRICT,) if vector["id"] in REFUSED_BY_ITS_KEY else (STRICT, DRAFT_10, DRAFT_12):
        with pytest.raises(FormatError):
            parse_signature_header(value.removeprefix("Signature "), reading=reading)


CHECKS = MappingProxyType(
    {
        ("cavage", "valid"): check_signature,
        ("cavage", "spec-vector-wrong"): check_signature,
        ("cavage", "source-vector-wrong"): check_signature,
        ("cavage-signing-string", "string"): check_string,
        ("cavage-parse-negative", "reject (draft-12 rules)"): check_refused,
    }
)


def test_every_cavage_vector_is_checked_and_does_what_it_says(shared_data):
    faults = []
    for vector in load(shared_data, "cavage.json"):
        check = CHECKS.get((vector["scheme"], vector["expect"]))
        if check is None:
            faults.append(f"{vector['id']}: nothing checks {vector['scheme']} {vector['expect']}")
            continue
        try:
            check(vector)
        except (AssertionError, FormatError, SignatureRejected, pytest.fail.Exception) as e:
            faults.append(f"{vector['id']}: {e}")
    assert faults == []
    assert {vector["id"] for vector in load(shared_data, "cavage.json")} >= WITH_TIMES


def test_a_line_that_is_still_folded_is_refused(shared_data):
    (vector,) = (row for row in load(shared_data, "cavage.json") if row["id"] == "cavage10-2.3-signing-string")
    request = vector["request"]
    message = Message(request["method"], request["target"], tuple(map(tuple, request["headers"])), b"")
    with refused(FormatError, "header.control-character"):
        make_signing_string(vector["covered"], message_components(message)[0])


def test_every_digest_vector_does_what_it_says(shared_data):
    faults = []
    for vector in load(shared_data, "digest.json"):
        algorithm, body = vector["algorithm"].upper(), b64decode(vector["body_b64"])
        assert algorithm in {"SHA-256", "SHA-512"}, f"{vector['id']}: nothing checks {algorithm}"
        assert vector["expect"] in {"valid", "invalid", "source-vector-wrong"}, vector["id"]
        # RFC 3230 and RFC 9530 write the same base64, the one bare and the other between colons.
        for make, verify, value in (
            (make_digest, verify_digest, f"{algorithm}={vector['expected']}"),
            (make_content_digest, verify_content_digest, f"{algorithm.lower()}=:{vector['expected']}:"),
        ):
            try:
                verify(value, body)
                holds = make(body, algorithm=value.partition("=")[0]) == value
            except (FormatError, SignatureRejected):
                holds = False
            if holds is not (vector["expect"] == "valid"):
                faults.append(f"{vector['id']}: expected {vector['expect']}")
    assert faults == []


def test_every_header_vector_reads_as_it_says(shared_data):
    for vector in load(shared_data, "parse.json"):
        expected, header = vector["expected_params"], vector["header"]
        if expected["signature"] == "Base64(RSA-SHA256(signing string))":  # the example's placeholder
            with refused(FormatError, "base64.malformed"):
                parse_signature_header(header, reading=Reading(any_case=True))
            header = header.replace(expected["signature"], "AAAA")
        parameters = parse_signature_header(header, reading=Reading(any_case=True))
        assert (parameters.key_id, parameters.algorithm) == (expected["keyId"], expected["algorithm"])
        assert parameters.headers == tuple(expected["headers"].lower().split())
        assert (parameters.created, parameters.expires) == (expected.get("created"), expected.get("expires"))


def test_capital_letters_of_the_guidelines_example_are_refused_by_the_strict_reader(shared_data):
    (vector,) = (row for row in load(shared_data, "parse.json") if row["id"] == "bg-openapi-1.3.11")
    with refused(FormatError, "signature.covered-names"):
        parse_signature_header(vector["header"])


AT = datetime.fromtimestamp(1618884500, UTC)
# The names of RFC 9421 for what the vectors call otherwise.
NAMES = {"rsa-sha256": "rsa-v1_5-sha256"}


def fields_of(vector: Vector) -> tuple[str, str, str]:
    """Label, Signature-Input and Signature."""
    label, separator, _ = vector["signature_input"].partition("=(")
    if not separator:
        label = "sig"
    signature_input = vector["signature_input"] if separator else f"sig={vector['signature_input']}"
    return label, signature_input, f"{label}=:{vector['expected_signature']}:"


def request_of(vector: Vector) -> Message:
    method, target, _ = vector["first_line"].split(" ")
    _, signature_input, signature = fields_of(vector)
    headers = [(name, value) for name, value in vector["headers"] if name not in ("Signature-Input", "Signature")]
    headers += [("Signature-Input", signature_input), ("Signature", signature)]
    return Message(method, target, tuple(headers), (vector["body"] or "").encode())


def origin_of(vector: Vector) -> Origin:
    """Where the example says that the request went; the attack on Host in example 4 goes where the others went."""
    host = next(value for name, value in vector["headers"] if name == "Host")
    return Origin("https", host)


def verify_request(vector: Vector) -> None:
    message = request_of(vector)
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    verified = verify_message_signature(
        message,
        verifiers=make_verifiers(key, names=RFC9421),
        at=AT,
        label=fields_of(vector)[0],
        origin=origin_of(vector),
        algorithm=NAMES.get(vector["algorithm"], vector["algorithm"]),
    )
    assert verified.base.decode() == vector["expected_signature_base"]


def printed_lines(vector: Vector) -> tuple[SignatureInput, bytes, bytes]:
    """What is signed, the base made of the printed values, and the signature."""
    lines = dict(line.split(": ", 1) for line in vector["expected_signature_base"].split("\n"))
    label, signature_input, signature = fields_of(vector)
    parameters, raw = parse_signature_fields(signature_input, signature, label=label)
    return parameters, make_signature_base(parameters, lambda component: lines[str(component)]), raw


def check_printed(vector: Vector) -> None:
    _, base, raw = printed_lines(vector)
    assert base.decode() == vector["expected_signature_base"]
    key = load_pem_public_key(vector["keys"]["public_pem"].encode())
    verify_signature(make_verifiers(key, names=RFC9421), NAMES.get(vector["algorithm"], vector["algorithm"]), raw, base)


def check_hmac(vector: Vector) -> None:
    """Its base is ours, and with every key that there is it is refused."""
    message = request_of(vector)
    parameters, _ = parse_signature_fields(*fields_of(vector)[1:])
    base = make_signature_base(parameters, request_values(message, origin=origin_of(vector)))
    assert base.decode() == vector["expected_signature_base"]
    assert "hmac-sha256" not in RFC9421


def is_request(vector: Vector) -> bool:
    return bool(vector["headers"]) and not vector["first_line"].startswith("HTTP/")


def test_every_vector_does_what_it_says(shared_data):
    faults = []
    for vector in load(shared_data, "rfc9421.json"):
        if vector["algorithm"] == "hmac-sha256":
            check = check_hmac
        else:
            check = verify_request if is_request(vector) else check_printed
        try:
            check(vector)
            holds = True
        except SignatureRejected as e:
            holds = False
            if e.code != "signature.invalid":
                faults.append(f"{vector['id']}: refused for another reason, {e}")
        if holds is not (vector["expect"] == "valid"):
            faults.append(f"{vector['id']}: expected {vector['expect']}")
    assert faults == []


def test_every_vector_is_written_as_it_was_read(shared_data):
    for vector in load(shared_data, "rfc9421.json"):
        label, signature_input, signature = fields_of(vector)
        parameters, raw = parse_signature_fields(signature_input, signature, label=label)
        assert make_signature_fields(parameters, raw, label=label) == (signature_input, signature)


# The values that the examples of answers print, because the file has their headers from another version or not at all.
OK_DIGEST = "sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:"
BUSY_DIGEST = "sha-512=:0Y6iCBzGg5rZtoXS95Ijz03mslf6KAMCloESHObfwnHJDbkkWWQz6PhhU9kxsTbARtY2PTBOzq24uJFpHsMuAg==:"
ASKED_DIGEST = "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:"
JSON = ("Content-Type", "application/json")
OK = Answer(200, (JSON, ("Content-Digest", OK_DIGEST), ("Content-Length", "23")), b"")
BUSY = Answer(503, (JSON, ("Content-Digest", BUSY_DIGEST)), b"")
ASKED = Message(
    "POST", "/foo?param=Value&Pet=dog", (JSON, ("Content-Digest", ASKED_DIGEST), ("Content-Length", "18")), b""
)
ANSWERS = {"rfc9421-b24": OK, "rfc9421-intext-1": BUSY, "rfc9421-intext-2": BUSY}


def test_the_examples_of_answers_have_our_base_and_a_good_signature(shared_data):
    """The values are of appendix B.2.4 and section 2.4 of RFC 9421."""
    found = []
    for vector in load(shared_data, "rfc9421.json"):
        label, *fields = fields_of(vector)
        parameters, raw = parse_signature_fields(*fields, label=label)
        if '"@status"' not in parameters.text:
            continue
        found.append(vector["id"])
        with refused(FormatError, "signature.unsupported-component"):  # of a request
            make_signature_base(parameters, request_values(Message("GET", "/")))
        lines = answer_values(ANSWERS[vector["id"]], request=ASKED, origin=Origin("https", "example.com"))
        base = make_signature_base(parameters, lines)
        assert base.decode() == vector["expected_signature_base"]
        key = load_pem_public_key(vector["keys"]["public_pem"].encode())
        verify_signature(make_verifiers(key, names=RFC9421), "ecdsa-p256-sha256", raw, base)
    assert found == list(ANSWERS)


def test_the_signature_of_a_request_binds_its_answer():
    """Section 2.4 of RFC 9421: `"signature";req;key="sig1"`."""
    asked = ASKED.with_headers(("Signature", "sig1=:AQID:, other=:BA==:"))
    lines = answer_values(BUSY, request=asked)
    assert lines(Component("signature", (("req", True), ("key", "sig1")))) == ":AQID:"
    assert lines(Component("signature", (("req", True),))) == "sig1=:AQID:, other=:BA==:"
    for component in (
        Component("@method"), Component("@status", (("req", True),)), Component("@method", (("req", 1),)),
        Component("date", (("req", False),)), Component("content-type", (("tr", True),)), Component("@query-param", (("name", "a"),)),
    ):  # fmt: skip
        with refused(FormatError, "signature.unsupported-component", row=component):
            lines(component)
    with refused(SignatureRejected, "signature.header-absent"):
        lines(Component("content-length"))
