"""Callbacks and login GETs as evidence: verified again under the key that signed them, whatever the service's keys are today."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from refusals import refused
from tppkit.callbacks import CallbackAddress, CallbackKey, CallbackKind, CallbackReceiver, Inbox, Receipt, sign_callback
from tppkit.callbacks.verify import P256_ORDER, VerifiedCallback, verify_signature
from tppkit.errors import ConfigurationError, FormatError
from tppkit.evidence import AuditPlan, AuditResult, EvidenceArchive, EvidenceRecord, audit_archives
from tppkit.evidence.callbacks import make_callback_record
from tppkit.evidence.exhibit import HOLDS, NOT_CHECKED, examine, write_bundle
from tppkit.evidence.lookup import find_record
from tppkit.evidence.sealing import seal_archive
from tppkit.inbox.store import MemoryStore
from tppkit.message import Message
from tppkit.protocol.legacy import LoginRequest
from tppkit.testpki.pem import certificate_pem
from tppkit.trust import TrustMaterial
from tppkit.web import CallbackGate
from tppkit.web.sources import AsgiSource

RECEIVED = datetime(2026, 6, 1, 12, tzinfo=UTC)
NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
ORIGIN = "https://tpp.example"
BODY = b'{"token":"0123456789abcdefghij"}'
ADDRESSES = (
    CallbackAddress(f"{ORIGIN}/cb/", CallbackKind.OTHER),
    CallbackAddress(f"{ORIGIN}/login/{{token}}", CallbackKind.LOGIN),
    CallbackAddress(f"{ORIGIN}/caf%C3%A9", CallbackKind.OTHER),
)
# The service's keys of an operator's years: (name, valid until, valid from)
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("test", "old", "new")}


def sha256_of(name: str) -> str:
    der = KEYS[name].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


TRUSTED = frozenset(map(sha256_of, KEYS))
RECEIVER = CallbackReceiver(
    ADDRESSES,
    keys=[
        CallbackKey("test", KEYS["test"].public_key()),
        CallbackKey("old", KEYS["old"].public_key(), not_after=NEW_YEAR),
        CallbackKey("new", KEYS["new"].public_key(), not_before=NEW_YEAR),
    ],
)  # fmt: skip


def receive(
    number: int, *, key: str = "old", at: datetime = RECEIVED, method: str = "POST", path: str = "/cb/", signed: str | None = None,
    body: bytes = BODY, twin: bool = False,
) -> VerifiedCallback:  # fmt: skip
    sent = b"" if method == "GET" else body
    headers = sign_callback(
        KEYS[key], request_id=f"r-{number}", method=method, url=ORIGIN + (signed or path), body=sent
    )
    if twin:
        r, s = decode_dss_signature(bytes.fromhex(headers[1][1]))
        headers = (headers[0], ("signature", encode_dss_signature(r, P256_ORDER - s).hex()))
    return verify_signature(Message(method, path, headers, sent), at=at, receiver=RECEIVER)


def audit(folder: Path, *records: EvidenceRecord) -> AuditResult:
    with EvidenceArchive(folder / "archive", stream_id="5a" * 16) as archive:
        for record in records:
            archive.append(record)
        archive.rotate(now=NOW)
    list(seal_archive(folder / "archive"))
    return audit_archives(
        [folder / "archive"], AuditPlan(now=NOW), material=TrustMaterial(keys=TRUSTED), report=folder / "a.html"
    )


def record(callback: VerifiedCallback, **changes: Any) -> EvidenceRecord:
    return replace(make_callback_record(callback, receiver=RECEIVER), **changes)


def test_callbacks_and_logins_are_verified_under_the_keys_that_were_valid_then(tmp_path):
    login = "/login/0123456789abcdefghij"
    callbacks = (
        receive(1, key="test"), receive(2), receive(3, method="GET", path=login), receive(4, path=login),
        receive(5, path="/caf%C3%A9", signed="/café"), receive(6, path="/caf%c3%a9"), receive(7, key="new", at=NEW_YEAR),
    )  # fmt: skip
    records = [record(one) for one in callbacks]
    assert [one.kind for one in records] == [3, 3, 6, 3, 3, 3, 3]
    assert [one.url_form for one in records] == ["configured"] * 4 + ["decoded", "received", "configured"]
    assert {one.profile for one in records} == {"callback-other", "callback-login"}
    result = audit(tmp_path, *records)
    assert (result.exit_code, result.records, result.by_code) == (0, 7, {})
    assert {key.split()[0]: number for key, number in result.totals.keys.items()} == {"test": 1, "old": 5, "new": 1}
    assert result.totals.without_revocation == 0


def test_a_key_that_the_auditor_does_not_know_proves_nothing(tmp_path, pki):
    key = KEYS["old"].public_key()
    (tmp_path / "service.pub").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "root.pem").write_bytes(b"".join(map(certificate_pem, pki.authorities)))
    archive = EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16)
    archive.append(record(receive(1)))
    archive.append(record(receive(2, key="test")))
    archive.close()
    result = audit_archives([archive.folder], AuditPlan(now=NOW, trust=str(tmp_path)))
    assert (result.exit_code, result.by_code) == (3, {"record.unconfirmed-key": 1})
    (failure,) = result.first_failures
    assert (failure["seq"], sha256_of("test") in failure["message"]) == (1, True)


def test_a_malleated_twin_is_the_same_event_not_a_new_one(tmp_path):
    one, twin = receive(1), receive(1, twin=True, at=RECEIVED + timedelta(hours=30))
    assert one.signature != twin.signature
    result = audit(tmp_path, record(one), record(twin))
    assert (result.exit_code, result.by_code) == (0, {"record.callback-repeated": 1})
    other = receive(1, body=b'{"token":"jihgfedcba9876543210"}')
    assert audit(tmp_path / "other", record(one), record(other)).by_code == {"record.id-reused": 1}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"x_request_id": "r-2"}, "record.malformed"),  # not that of the header
        ({"x_request_id": "r-2", "header_block": b"requestid: r-2\r\n"}, "callback.signature"),
        ({"target": f"{ORIGIN}/other/"}, "callback.signature"),
        ({"target": f"{ORIGIN}/cb/{{"}, "record.malformed"),  # the end of the address would be the beginning of a body
        ({"x_request_id": "r-1POSThttps://tpp.example/cb/", "target": ""}, "record.malformed"),
        ({"method": "GET"}, "record.malformed"),
        ({"kind": 6}, "record.malformed"),
        ({"key_name": None}, "record.malformed"),
        ({"public_key": None}, "record.malformed"),
        ({"public_key": b"0"}, "callback-key.unreadable"),
        ({"public_key": make_callback_record(receive(9, key="test"), receiver=RECEIVER).public_key}, "callback.signature"),
        ({"signature_raw": b"00"}, "callback.signature-form"),
        ({"signature_raw": "é".encode("latin-1")}, "callback.signature-form"),
        ({"signing_input_sha256": "0" * 64}, "record.signing-input"),
        ({"seal_cert": "0" * 64}, "record.malformed"),
        ({"url_form": "other"}, "record.malformed"),
        ({"profile": "callback-unknown"}, "record.unknown-profile"),
        ({"body": None, "body_state": 3}, "record.body-redacted"),
    ],
)  # fmt: skip
def test_a_callback_that_was_changed_does_not_pass(changes, code, tmp_path):
    result = audit(tmp_path, record(receive(1), **changes))
    assert result.exit_code != 0
    assert result.totals.by_code.keys() - {"record.unconfirmed-key"} == {code}


def test_one_callback_is_shown_with_its_key_instead_of_certificates(tmp_path):
    audit(tmp_path, record(receive(1)))
    for keys, state in ((TRUSTED, HOLDS), (frozenset(), NOT_CHECKED)):
        exhibit = examine(find_record(tmp_path / "archive", "r-1"), paths=TrustMaterial(keys=keys))
        assert [step.state for step in exhibit.steps] == [HOLDS, HOLDS, state, HOLDS, HOLDS, NOT_CHECKED, HOLDS]
    assert str(exhibit.verdict.key) in exhibit.steps[2].why
    with refused(FormatError, "record.unknown-kind"):
        write_bundle(exhibit, tmp_path / "bundle", paths=TrustMaterial())


def test_a_key_that_the_receiver_does_not_have_makes_no_record():
    receiver = CallbackReceiver(ADDRESSES, keys=[RECEIVER.keys[0]])
    with refused(ConfigurationError, "callback-key.setting"):
        make_callback_record(receive(1), receiver=receiver)


def test_a_name_of_a_key_never_looks_like_an_organisation(tmp_path):
    result = audit(tmp_path, record(receive(1), key_name="PSDLT-BL-LB000000"))
    assert (result.exit_code, [*result.totals.by("claimed_by")]) == (0, [("key PSDLT-BL-LB000000",)])
    assert ",PSDLT-BL-LB000000," not in (tmp_path / "a.csv").read_text("utf-8")


def test_a_callback_that_cannot_be_kept_is_answered_503_and_kept_when_it_comes_again(tmp_path):
    archives = [EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16)]
    archives[0].close()

    def keep(receipt: Receipt) -> None:
        archives[-1].append(make_callback_record(receipt.callback, receiver=RECEIVER))

    gate = CallbackGate(
        Inbox(RECEIVER, MemoryStore()), handler=lambda *_: None, login=lambda _: LoginRequest(name="Bookshop", perm=()), keep=keep,
        now=lambda: RECEIVED,
    )  # fmt: skip
    headers = sign_callback(KEYS["old"], request_id="r-1", method="POST", url=f"{ORIGIN}/cb/", body=BODY)
    source = AsgiSource({"type": "http", "method": "POST", "path": "/cb/", "headers": [], "client": ("203.0.113.7", 1)})
    received = Message("POST", "/cb/", headers, BODY)
    assert gate.receive(received, source).status == 503
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        archives.append(archive)
        assert gate.receive(received, source).status == 200
        assert [one.x_request_id for one in archive.newest(9)] == ["r-1"]
