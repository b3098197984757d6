"""Every dialect at the door, its body in pieces."""

from __future__ import annotations

import pytest
from asgi import AT, Recorder, call, scope_of
from sealing import policy_of, request_for, seal_of

from tppkit.seals import PROFILES, SealProfile, sign_request
from tppkit.testpki import Pki
from tppkit.web import QwacPolicy, SealGate, SealMiddleware, verified_request

ROWS = pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)


@ROWS
@pytest.mark.parametrize("body", [b'{"amount":"12.50"}', b""], ids=["body", "no body"])
def test_every_dialect_is_let_through_whole_and_refused_when_its_body_was_changed(
    row: SealProfile, body: bytes, rsa_pki: Pki
) -> None:
    app, seals = Recorder(), policy_of(row, rsa_pki)
    door = SealMiddleware(app, gate=SealGate(qwacs=QwacPolicy(seals.paths), seals=seals, now=lambda: AT))
    sealed = sign_request(request_for(row, body=body), seal=seal_of(row, rsa_pki.qseal), at=AT)
    scope = scope_of(sealed, rsa_pki.qwac)
    for _ in range(2):  # the second time from memory
        assert call(door, scope, [body[:5], body[5:]]).status == 201
    assert verified_request(app.scopes[0]).body == body
    for other in (body + b" ", b"x" if not body else b"", body.replace(b"12.50", b"99.99") or b"{}x"):
        told = call(door, scope, [other])
        assert (told.status, told.code, len(app.scopes)) == (401, "SIGNATURE_INVALID", 2)
