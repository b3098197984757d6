"""Kept answers about revocation, read from files."""

from __future__ import annotations

import pytest
from answering import AT, make_crl, make_ocsp
from cryptography.hazmat.primitives.serialization import Encoding

from refusals import refused
from tppkit.errors import FormatError
from tppkit.trust import RevocationEvidence, load_revocation


def test_every_list_of_a_pem_file_is_read(certify, tmp_path):
    issuing = certify("Issuing")
    crls = make_crl(issuing, at=AT), make_crl(issuing, certify("leaf", issuing, ca=False), at=AT)
    (tmp_path / "lists.pem").write_bytes(b"".join(crl.x509.public_bytes(Encoding.PEM) for crl in crls))
    assert load_revocation([tmp_path / "lists.pem"]) == RevocationEvidence(crls)


def test_files_of_both_kinds_are_read(certify, tmp_path):
    issuing = certify("Issuing")
    leaf = certify("leaf", issuing, ca=False)
    crl, response = make_crl(issuing, at=AT), make_ocsp(leaf, issuing, at=AT)
    (tmp_path / "a.crl").write_bytes(crl.der)
    (tmp_path / "b.pem").write_bytes(crl.x509.public_bytes(Encoding.PEM))
    (tmp_path / "c.ors").write_bytes(response.der)
    assert load_revocation(sorted(tmp_path.iterdir())) == RevocationEvidence((crl,), (response,))


@pytest.mark.parametrize("content", [b"", b"neither", b"\x30\x03\x0a\x01\x00\x00"])
def test_a_file_that_is_neither_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with refused(FormatError, "revocation.unreadable"):
        load_revocation([tmp_path / "file"])
