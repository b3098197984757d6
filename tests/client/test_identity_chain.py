"""The chain that is sent with a QWAC: in the order of TLS, whatever that of the file."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, pkcs12
from cryptography.x509.oid import NameOID
from rogue_bank import server_context

from tppkit._clock import utc_now
from tppkit.certificates import EidasCertificate
from tppkit.client import Identity
from tppkit.client.identity_material import order_chain as order_chain_at
from tppkit.testpki import Issued, certificate_pem, key_pem, make_pki


def order_chain(certificate: EidasCertificate, others: Sequence[EidasCertificate]) -> tuple[EidasCertificate, ...]:
    return order_chain_at(certificate, others, at=utc_now())


def in_pem(issued: Issued, others: Sequence[EidasCertificate]) -> dict[str, bytes]:
    return {
        "qwac": b"".join(map(certificate_pem, (issued.certificate, *others))),
        "qwac_key": key_pem(issued.key),
    }


def in_pkcs12(issued: Issued, others: Sequence[EidasCertificate]) -> dict[str, bytes]:
    certificates = [other.x509 for other in others]
    return {
        "qwac": pkcs12.serialize_key_and_certificates(
            b"x", issued.key, issued.certificate.x509, certificates, NoEncryption()
        )
    }


def chain_on_the_wire(identity: Identity, folder: Path) -> list[bytes]:
    context = server_context(folder, client_anchors=folder / "root.pem")
    seen: list[Any] = []

    def serve(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            seen.extend(connection._sslobj.get_unverified_chain())  # type: ignore[attr-defined]
            connection.sendall(b"x")

    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)
    server = threading.Thread(target=serve, args=(theirs,))
    server.start()
    with identity.tls_context.wrap_socket(ours, server_hostname="localhost") as connection:
        assert connection.recv(1) == b"x"
    server.join(10)
    return [one.public_bytes(2) for one in seen]  # DER


@pytest.mark.parametrize("write", [in_pem, in_pkcs12], ids=["PEM", "PKCS#12"])
def test_a_file_may_hold_the_authorities_in_any_order(write, bank_pki, bank_pki_folder):
    others = (bank_pki.root.certificate, *bank_pki.qseal.chain, *bank_pki.qwac.chain)
    anchors = certificate_pem(bank_pki.root.certificate)
    identity = Identity.from_memory(**write(bank_pki.qwac, others), server_anchors=anchors)
    wanted = [bank_pki.qwac.certificate.der, *[one.der for one in bank_pki.qwac.chain]]
    assert chain_on_the_wire(identity, bank_pki_folder) == wanted


@dataclass(frozen=True)
class Authority:
    """A name with a key, which signs certificates for others, with the identifiers of both keys or without."""

    name: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    identified: bool = False

    def certify(self, other: Authority, *, begins: int, ends: int) -> EidasCertificate:
        """Begins and ends in so many days from now."""
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one.name)]) for one in (other, self))
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        builder = builder.public_key(other.key.public_key()).serial_number(x509.random_serial_number())
        now = utc_now()
        builder = builder.not_valid_before(now + timedelta(days=begins)).not_valid_after(now + timedelta(days=ends))
        if self.identified:
            own = x509.SubjectKeyIdentifier.from_public_key(other.key.public_key())
            issuers = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
            builder = builder.add_extension(own, critical=False).add_extension(issuers, critical=False)
        return EidasCertificate.from_der(builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.DER))


@pytest.fixture(params=[True, False], ids=["key identifiers", "names alone"])
def long_chain(request: pytest.FixtureRequest) -> tuple[EidasCertificate, ...]:
    """A certificate, three authorities and their root."""
    names = [Authority(f"TEST {number}", identified=request.param) for number in range(5)]
    return tuple(names[min(number + 1, 4)].certify(one, begins=-1, ends=1) for number, one in enumerate(names))


def test_a_long_chain_is_put_in_order(long_chain):
    leaf, *authorities, root = long_chain
    for seed in range(6):
        others = [*authorities, root, leaf]
        random.Random(seed).shuffle(others)
        assert order_chain(leaf, others) == tuple(authorities)


def test_what_does_not_belong_to_the_chain_is_left_out_also_an_authority_of_the_same_name(bank_pki):
    other = make_pki(at=utc_now(), seed=99)
    (issuer,), (namesake,) = bank_pki.qwac.chain, other.qwac.chain
    assert issuer.subject == namesake.subject
    for others in ((issuer, namesake), (namesake, issuer)):
        assert order_chain(bank_pki.qwac.certificate, others) == (issuer,)
    others = (bank_pki.root.certificate, bank_pki.qseal.certificate, *bank_pki.qseal.chain)
    assert order_chain(bank_pki.qwac.certificate, others) == ()


def test_a_reload_sends_the_renewal_once_it_is_valid(tmp_path):
    root, issuer, leaf = Authority("root"), Authority("CA"), Authority("leaf")
    chain = [
        issuer.certify(leaf, begins=-100, ends=600),
        root.certify(issuer, begins=-2000, ends=200),
        root.certify(issuer, begins=100, ends=4000),
    ]
    (tmp_path / "qwac").write_bytes(b"".join(map(certificate_pem, chain)))
    (tmp_path / "key").write_bytes(key_pem(leaf.key))
    begin, later = utc_now(), utc_now() + timedelta(days=300)
    identity = Identity.from_files(qwac=tmp_path / "qwac", qwac_key=tmp_path / "key", now=lambda: begin)
    assert identity.check(at=begin) == ()
    assert [finding.code for finding in identity.check(at=later)] == ["identity.expired"]
    assert identity.reload(at=later)
    assert identity.check(at=later) == ()
    assert not identity.reload(at=later)


def test_of_several_possible_authorities_the_first_that_signed_is_taken_once():
    old, new, between, issuer, leaf = (Authority(name) for name in ("old root", "new root", "between", "CA", "leaf"))
    by_old = [between.certify(issuer, begins=-9, ends=1000), old.certify(between, begins=-9, ends=1000)]
    by_new = [new.certify(issuer, begins=-9, ends=2000)]
    certificate = issuer.certify(leaf, begins=-1, ends=600)
    assert order_chain(certificate, by_old + by_new) == tuple(by_old)
    assert order_chain(certificate, by_new + by_old) == tuple(by_new)
    one, other, leaf = Authority("one"), Authority("other"), Authority("leaf")
    above_one = [other.certify(one, begins=-9, ends=900) for _ in range(9)]
    above_other = [one.certify(other, begins=-9, ends=900) for _ in range(9)]
    certificate = one.certify(leaf, begins=-1, ends=600)
    assert order_chain(certificate, above_one + above_other) == (above_one[0], above_other[0])
    root, one, namesake, leaf = (Authority(name) for name in ("root", "CA", "CA", "leaf"))
    signed, other = root.certify(one, begins=-1, ends=10), root.certify(namesake, begins=-1, ends=900)
    certificate = one.certify(leaf, begins=-1, ends=5)
    for others in ((other, signed), (signed, other)):
        assert order_chain(certificate, others)[0] == signed
