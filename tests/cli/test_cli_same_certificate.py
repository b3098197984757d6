"""`cert check`, `seal verify` and the audit find the same in the same certificate."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest

from tppkit._clock import parse_time
from tppkit.certificates import Use, load_certificates
from tppkit.certificates.rules import RULES
from tppkit.errors import ConfigurationError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.evidence.verdicts import step_of
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem, write_pki

MESSAGE = Message("POST", "/psd2/v1/consents", (("X-Request-ID", str(UUID(int=1))),), b'{"n":1}')

# The audit finds no answer about the other certificate of the record, and accepts organisations by a policy of its own.
OTHERS = {"revocation.unknown", "organization-identifier.authority-mismatch"}


def passed_over(use: str) -> set[str]:
    """The rules of the profile for which no relying party rejects a certificate."""
    return {rule.code for rule in RULES if not rule.essential and Use(use) in rule.uses}


def raw(message: Message) -> bytes:
    lines = [f"{message.method} {message.target} HTTP/1.1", *(f"{name}: {value}" for name, value in message.headers)]
    return "\r\n".join([*lines, "", ""]).encode() + message.body


@pytest.mark.slow
def test_every_fault_has_the_same_codes_in_cert_check_seal_verify_and_the_audit(tppkit, tmp_path, pki, paths):
    faults = [f for f in write_pki(pki, tmp_path / "pki", with_faults=True)["files"] if f["kind"] == "fault"]
    assert len(faults) >= 80
    (tmp_path / "trust.pem").write_bytes(b"".join(certificate_pem(one) for one in pki.authorities))
    leaves = [load_certificates(tmp_path / "pki" / fault["path"])[0] for fault in faults]
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        for fault, leaf in zip(faults, leaves, strict=True):
            at, seal = parse_time(fault["at"]), Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
            verified = verify_request(
                sign_request(MESSAGE, seal=seal), qwac=pki.qwac.certificate, at=at, policy=SealPolicy(paths)
            )
            column = "seal_cert" if fault["as"] == "qseal" else "qwac_cert"
            record = replace(make_record(verified), **{column: leaf.sha256})
            archive.append(record, pki.qseal.certificate, pki.qwac.certificate, leaf)
    compared, differ = 0, {}
    for seq, (fault, leaf) in enumerate(zip(faults, leaves, strict=True)):
        answers = [word for kind in ("crl", "ocsp") for name in fault[kind] for word in (f"--{kind}", f"pki/{name}")]
        given = ("--trust", "trust.pem", *answers, "--json")
        (tmp_path / "leaf.pem").write_bytes(certificate_pem(leaf))
        found = tppkit("cert", "check", "leaf.pem", "--as", fault["as"], "--at", fault["at"], *given).json["findings"]
        errors = {one["code"] for one in found if one["severity"] == "error"} - passed_over(fault["as"])
        shown = tppkit("audit", "show", "archive", str(seq), *given).json
        audited = {code for one in shown["failures"] if step_of(code := one["code"]) == 3}
        if audited - OTHERS != errors - OTHERS:
            differ[fault["path"]] = "audit", audited, errors
        if fault["as"] == "qseal":
            with suppress(ConfigurationError):  # no one can seal with a website certificate
                sent = sign_request(MESSAGE, seal=Seal(leaf, KeySigner(pki.qseal.key)))
                (tmp_path / "request").write_bytes(raw(sent))
                sealed = tppkit("seal", "verify", "request", "--at", fault["at"], *given).json
                verified_as = {one["code"] for one in sealed["findings"] if one["severity"] == "error"}
                if verified_as - OTHERS != errors - OTHERS:
                    differ[fault["path"]] = "seal verify", verified_as, errors
                compared += 1
    assert differ == {}
    assert compared >= 4
