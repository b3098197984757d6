"""How failures are reported to the peer, and read from it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tppkit
from tppkit.codes import CODES
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, TppkitError
from tppkit.protocol.psd2.errors import REFUSALS
from tppkit.protocol.refusals import MAX_ERROR_BYTES, MAX_TEXT, Refusal

SOURCE = Path(tppkit.__file__).parent
# Modules that run between a request's arrival and its answer.
REQUEST_MODULES = ("certificates", "trust", "httpsig", "seals", "web", "protocol", "sandbox/psd2", "_encoding.py")
# Comparisons of certificates, which no request runs.
OFFLINE_MODULES = frozenset(SOURCE / "certificates" / f"{name}.py" for name in ("pair", "renewal"))
# Receivers of callbacks and webhooks get no request of the PSD2 interface; they answer with a status only.
RECEIVER_MODULES = frozenset(SOURCE.glob("web/receiving/*.py"))
OTHER_INTERFACES = frozenset({*SOURCE.glob("protocol/legacy/*.py"), *SOURCE.glob("protocol/gateway/*.py")})
KEYS = SOURCE / "web/keys.py"  # no endpoint of this interface authenticates by key
# Codes of these modules that no request can cause, and why. They are errors of ours, with status 500 unless noted.
OURS: Mapping[str, str] = MappingProxyType(
    {
        "answer.request-id": "of sealing an answer: the refusal of a request without an id is sent without a seal",
        "answer.too-large": "the answer of our application is too long to be sealed",
        "archive.unusable": "the request was right, and our archive failed: 503",
        "authority.unknown": "a notice: no request fails for it",
        "database.unavailable": "the request was right, and our database failed: 503",
        "file.unwritable": "lists are written by an operator's command, not by a request",
        "internal.unexpected": "of a reload, not of a request",
        "machine.no-such-move": "handlers check the table before they change a state",
        "name.malformed": "only keyId contains a name as text, and its parser raises key-id.malformed",
        "pkcs12.too-costly": "files of our own only",
        "pkcs12.unreadable": "files of our own only",
        "origin.malformed": "the origin is a setting of the verifier, not part of a request",
        "profile.file": "a mistake in a profile's file",
        "request.signature": "no endpoint accepts requests for certificates",
        "seal.body-needed": "the gate verifies seals over the body when the body is there",
        "seal.header-present": "sealing, not verifying",
        "replay.unavailable": "the request was right, and our store failed: 503",
        "transport.busy": "the request was right, and all threads were waiting for a network: 503",
        "account.funds": "of the customer's page and the control host, not of the interface",
        "account.unfit": "of the customer's page and the control host, not of the interface",
        "form.elsewhere": "of the sandbox's pages, not of the interface",
    }
)
# Answers about revocation are refused with these, which become findings of `revocation.unknown` and `revocation.stale`.
ABOUT_EVIDENCE = ("crl.", "ocsp.", "fetch.")
ABOUT_REPORTS = "csv."  # of a service, read by its client
ABOUT_SIGNING = "signer."  # no request makes the bank sign


def codes_of_requests() -> Iterator[str]:
    for place in REQUEST_MODULES:
        path = SOURCE / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        for file in [
            file for file in files if file not in OFFLINE_MODULES | RECEIVER_MODULES | OTHER_INTERFACES | {KEYS}
        ]:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and node.value in CODES:
                    yield node.value


def refusal_of(code: str) -> Refusal:
    return REFUSALS.refusal_for(LocalProtocolError(code, "what is wrong"))


def test_every_code_that_a_request_can_cause_is_reported_as_the_peers_fault():
    codes = {
        code for code in codes_of_requests() if not code.startswith((*ABOUT_EVIDENCE, ABOUT_REPORTS, ABOUT_SIGNING))
    }
    assert len(codes) > 60
    assert sorted(code for code in codes if not 400 <= refusal_of(code).status < 500) == sorted(OURS.keys() & codes)


def test_every_code_that_is_ours_still_exists():
    assert OURS.keys() <= CODES.keys()


def test_every_row_matches_a_code_and_has_a_client_error_or_status_503():
    for beginning, status, code in REFUSALS.rows:
        assert any(known == beginning or (beginning[-1] == "." and known.startswith(beginning)) for known in CODES)
        assert 400 <= status < 500 or (status == 503 and beginning in OURS), beginning
        assert code == code.upper()


@pytest.mark.parametrize(
    ("code", "status", "peer_code"),
    [
        ("certificate.missing", 401, "CERTIFICATE_MISSING"),
        ("certificate.expired", 401, "CERTIFICATE_EXPIRED"),
        ("certificate.not-yet-valid", 401, "CERTIFICATE_INVALID"),
        ("revocation.revoked", 401, "CERTIFICATE_REVOKED"),
        ("revocation.stale", 401, "CERTIFICATE_INVALID"),
        ("trust.no-path", 401, "CERTIFICATE_INVALID"),
        ("der.malformed", 401, "CERTIFICATE_INVALID"),
        ("signature.missing", 401, "SIGNATURE_MISSING"),
        ("signature.missing-parameter", 401, "SIGNATURE_INVALID"),
        ("signature.invalid", 401, "SIGNATURE_INVALID"),
        ("digest.mismatch", 401, "SIGNATURE_INVALID"),
        ("seal.other-organisation", 401, "SIGNATURE_INVALID"),
        ("role.missing", 403, "ROLE_INVALID"),
        ("request-id.reuse", 409, "REQUEST_ID_REUSE"),
        ("request-id.missing", 400, "FORMAT_ERROR"),
        ("product.invalid", 400, "PRODUCT_INVALID"),
        ("payment.not-cancellable", 409, "CANCELLATION_INVALID"),
        ("payment.unknown", 403, "RESOURCE_UNKNOWN"),
        ("message.too-large", 413, "FORMAT_ERROR"),
        ("model.invalid", 400, "FORMAT_ERROR"),
    ],
)
def test_a_failure_has_the_status_and_code_of_the_document(code, status, peer_code):
    assert (refusal_of(code).status, refusal_of(code).code) == (status, peer_code)


@pytest.mark.parametrize("code", ["database.unusable", "nonsense", "signature", "certificate", "", "."])
def test_a_code_without_a_row_is_reported_without_details(code):
    refusal = REFUSALS.refusal_for(TppkitError(code, "the password is swordfish"))
    assert (refusal.status, refusal.code) == (500, "INTERNAL_SERVER_ERROR")
    assert "swordfish" not in refusal.text
    assert code not in refusal.text or not code


@pytest.mark.parametrize("code", ["key.unreadable", "trust.no-anchors", "trust.unreadable", "seal.key-mismatch"])
def test_a_mistake_in_our_settings_is_not_reported_as_the_peers_fault(code):
    refusal = REFUSALS.refusal_for(ConfigurationError(code, "/etc/bank/key.pem cannot be read"))
    assert (refusal.status, refusal.code) == (500, "INTERNAL_SERVER_ERROR")
    assert "key.pem" not in refusal.text


def test_the_body_is_one_message_as_the_guidelines_have_it():
    body = json.loads(REFUSALS.write(REFUSALS.refusal_for(FormatError("digest.mismatch", "die Prüfsumme paßt nicht"))))
    text = "die Prüfsumme paßt nicht (digest.mismatch)"
    assert body == {"tppMessages": [{"category": "ERROR", "code": "SIGNATURE_INVALID", "text": text}]}


def test_the_text_is_shortened_to_what_the_guidelines_allow():
    body = json.loads(REFUSALS.write(Refusal(400, "FORMAT_ERROR", "x" * 2000)))
    assert body["tppMessages"][0]["text"] == "x" * MAX_TEXT


@given(st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZ_", max_size=64), st.text(max_size=600))
def test_a_refusal_reads_back(code, text):
    assert REFUSALS.read(REFUSALS.write(Refusal(400, code, text))) == (code, text[:MAX_TEXT])


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"[]", b'""', b"1", b"{}", b"\xff", b"<html>", b'{"tppMessages":null}', b'{"tppMessages":[]}',
        b'{"tppMessages":{}}', b'{"tppMessages":"abc"}', b'{"tppMessages":[[]]}', b'{"tppMessages":[null]}',
        b'{"tppMessages":[{"code":1,"text":[]}]}', b'{"tppMessages":[{}]}', b"[" * 100_000, b" " * (MAX_ERROR_BYTES + 1),
    ],
)  # fmt: skip
def test_an_error_body_of_another_shape_says_nothing(raw):
    assert REFUSALS.read(raw) == (None, None)


def test_what_can_be_read_of_an_error_body_is_read():
    assert REFUSALS.read(b'{"tppMessages":[{"code":"SIGNATURE_INVALID"},{"code":"X"}]}') == ("SIGNATURE_INVALID", None)
    assert REFUSALS.read(b'{"tppMessages":[{"code":7,"text":"why"}]}') == (None, "why")


def test_what_the_peer_says_is_shortened():
    raw = json.dumps({"tppMessages": [{"code": "C" * 1000, "text": "t" * 1000}]}).encode()
    assert REFUSALS.read(raw) == ("C" * 64, "t" * MAX_TEXT)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["tppMessages", "code", "text"]) | st.text(max_size=3), inner, max_size=3)
    ),
)


@given(st.binary() | JSON.map(lambda value: json.dumps({"tppMessages": value}).encode()))
def test_whatever_the_bytes_of_an_error_body_nothing_escapes(raw):
    code, text = REFUSALS.read(raw)
    assert code is None or len(code) <= 64
    assert text is None or len(text) <= MAX_TEXT
