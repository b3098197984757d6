"""Every dialect at the door, its body in pieces."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asgi import AT, EVERY_PATH, Recorder, call, scope_of
from sealing import policy_of, request_for, seal_of

from tppkit.seals import PROFILES, DigestOf, sign_request
from tppkit.web import QwacPolicy, SealGate, SealMiddleware, verified_request

ROWS = pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)


@ROWS
@pytest.mark.parametrize("body", [b'{"amount":"12.50"}', b""], ids=["body", "no body"])
def test_every_dialect_is_accepted_whole_and_refused_when_its_body_was_changed(row, body, rsa_pki):
    if row.covers_body and not body:
        return  # such a seal is not made: see `tests/seals/test_body_seals.py`
    app, seals = Recorder(), policy_of(row, rsa_pki)
    door = SealMiddleware(app, gate=SealGate(EVERY_PATH, qwacs=QwacPolicy(seals.paths), seals=seals, now=lambda: AT))
    sealed = sign_request(request_for(row, body=body), seal=seal_of(row, rsa_pki.qseal), at=AT)
    scope = scope_of(sealed, rsa_pki.qwac)
    for _ in range(2):  # the second time from memory
        assert call(door, scope, [body[:5], body[5:]]).status == 201
    assert verified_request(app.scopes[0]).body == body
    for other in (body + b" ", b"x" if not body else b"", body.replace(b"12.50", b"99.99") or b"{}x"):
        answer = call(door, scope, [other])
        assert (answer.status, answer.code, len(app.scopes)) == (401, "SIGNATURE_INVALID", 2)


def test_of_a_form_the_application_gets_all_and_the_verified_body_is_the_file(pki):
    row = replace(PROFILES["berlin-group"], name="bulk", digest_of=DigestOf.FIRST_FILE)
    part = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f.xml"\r\n\r\n<a/>\r\n'
    form = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n' + part + b"--b--"
    message = request_for(row, body=form).with_headers(("Content-Type", "multipart/form-data; boundary=b"))
    sealed = sign_request(message, seal=seal_of(row, pki.qseal), at=AT)
    app, seals = Recorder(), policy_of(row, pki)
    door = SealMiddleware(app, gate=SealGate(EVERY_PATH, qwacs=QwacPolicy(seals.paths), seals=seals, now=lambda: AT))
    scope = scope_of(sealed, pki.qwac)
    for body in (form, form.replace(b"1", b"2")):  # the other fields are not signed
        assert call(door, scope, [body[:40], body[40:]]).status == 201
        verified = verified_request(app.scopes[-1])
        assert (verified.body, verified.covers_file_only, verified.unverified_message.body) == (b"<a/>", True, body)
    assert call(door, scope, [form.replace(b"<a/>", b"<b/>")]).code == "SIGNATURE_INVALID"
    for body in (form.replace(part, part + part), form[:-4], part + b"--b--\r\n" + form):
        assert (call(door, scope, [body]).status, len(app.scopes)) == (400, 2)


@pytest.mark.parametrize(("name", "field"), [("psd2-v1", "X-Request-ID"), ("chebanca", "tpp-request-id")])
def test_a_request_without_the_id_that_its_dialect_demands_is_refused_with_the_headers_name(name, field, rsa_pki):
    row = PROFILES[name]
    seals = policy_of(row, rsa_pki)
    gate = SealGate(EVERY_PATH, qwacs=QwacPolicy(seals.paths), seals=seals, now=lambda: AT, brief=False)
    message = request_for(row)
    fields = tuple(header for header in message.headers if header[0].lower() != field.lower())
    answer = call(
        SealMiddleware(Recorder(), gate=gate), scope_of(message._replace(headers=fields), rsa_pki.qwac), [message.body]
    )
    assert (answer.status, answer.text) == (400, f"the {field} header is absent (request-id.missing)")
