"""Who is on the other end of the TLS connection, and why they are not trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from sealing import ORGANIZATIONS, issue_for

from refusals import refused
from tppkit.certificates import EidasCertificate, OrganizationPolicy
from tppkit.errors import CertificateRejected, FormatError, TppkitError
from tppkit.testpki import Issued, Pki, certificate_pem, make_pki, make_provider, profiles
from tppkit.testpki.certificate import Draft, extension_of, sign_draft
from tppkit.trust import PathVerifier, make_anchors
from tppkit.web import AsgiSource, Caller, PeerCertificate, QwacPolicy, peer_certificate
from tppkit.web.caller import MAX_CHAIN

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def pem(certificate: EidasCertificate) -> str:
    return certificate_pem(certificate).decode()


def peer(*certificates: EidasCertificate) -> PeerCertificate:
    return PeerCertificate(tuple(map(pem, certificates)), None, "asgi-tls")


def scope(**tls: Any) -> dict[str, Any]:
    return {"type": "http", "extensions": {"tls": {"client_cert_chain": (), "client_cert_error": None, **tls}}}


@pytest.fixture
def qwacs(paths: PathVerifier) -> QwacPolicy:
    return QwacPolicy(paths)


@pytest.mark.parametrize(
    "without",
    [{"type": "http"}, {"extensions": {}}, {"extensions": {"tls": {}}}, scope(), scope(client_cert_chain=None)],
)
def test_a_connection_without_a_certificate_has_no_peer(without):
    with refused(CertificateRejected, "certificate.missing"):
        peer_certificate(AsgiSource(without))


def test_the_peer_is_what_the_server_put_into_the_scope_and_a_long_chain_is_cut(pki):
    chain = (pem(pki.qwac.certificate), pem(pki.qwac_ca.certificate))
    found = peer_certificate(AsgiSource(scope(client_cert_chain=chain, client_cert_error="certificate has expired")))
    assert found == PeerCertificate(chain, "certificate has expired", "asgi-tls")
    found = peer_certificate(AsgiSource(scope(client_cert_chain=[pem(pki.qwac.certificate)] * 100)))
    assert len(found.chain_pem) == MAX_CHAIN


def test_the_name_of_a_caller_is_that_in_its_qwac(pki, paths):
    path = paths.verify(pki.qwac.certificate, at=AT)
    assert Caller("id", AT, qwac_path=path).name == pki.qwac.certificate.organization_name
    assert Caller("id", AT).name is None


def test_the_peer_may_send_its_issuing_authority(pki):
    root_only = QwacPolicy(PathVerifier(make_anchors([pki.root.certificate])))
    with pytest.raises(CertificateRejected):
        root_only.verify(peer(pki.qwac.certificate), at=AT)
    path = root_only.verify(peer(pki.qwac.certificate, pki.qwac_ca.certificate), at=AT)
    assert path.chain == (pki.qwac.certificate, pki.qwac_ca.certificate, pki.root.certificate)


OWN = make_pki(at=AT, seed=3)
Change = Callable[[Draft], Draft]
USAGE = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])


def changed(pki: Pki, change: Change) -> tuple[Issued]:
    """A QWAC that was changed before it was signed."""
    drafted = pki.draft("qwac", pki.provider, label="changed")
    return (sign_draft(drafted._replace(draft=change(drafted.draft)), pki.qwac_ca, "changed", "qwac"),)


UNTRUSTED: dict[str, tuple[Callable[[Pki], tuple[Issued, ...]], str]] = {
    "a chain of its own": (lambda pki: (OWN.qwac, OWN.qwac_ca, OWN.root), "trust.no-path"),
    "an authority first": (lambda pki: (pki.qwac_ca, pki.qwac), "certificate.is-ca"),
    "a seal": (lambda pki: (pki.qseal,), "qcstatements.not-web"),
    "a website": (lambda pki: (pki.server,), "qcstatements.no-compliance"),
    "for servers alone": (
        lambda pki: changed(pki, lambda draft: draft.with_extension(extension_of(USAGE, False))), "certificate.no-client-auth"
    ),
    "for no usage": (
        lambda pki: changed(pki, lambda draft: draft.without_extension(USAGE.oid.dotted_string)), "certificate.no-client-auth"
    ),
    "for encipherment": (
        lambda pki: changed(pki, lambda draft: draft.with_extension(extension_of(*profiles.key_usage("key_encipherment")))),
        "certificate.key-usage",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNTRUSTED)
def test_what_is_not_a_qwac_for_clients_of_a_trusted_authority_is_refused(name, qwacs, pki):
    make, code = UNTRUSTED[name]
    with refused(CertificateRejected, code):
        qwacs.verify(peer(*[one.certificate for one in make(pki)]), at=AT)


@pytest.mark.parametrize(
    ("days", "code"), [(-1, "certificate.not-yet-valid"), (365, "certificate.expired"), (4000, "certificate.expired")]
)
def test_a_qwac_outside_its_validity_is_refused(days, code, qwacs, pki):
    assert qwacs.verify(peer(pki.qwac.certificate), at=AT)  # what was trusted before is judged again
    with refused(CertificateRejected, code):
        qwacs.verify(peer(pki.qwac.certificate), at=AT + timedelta(days=days))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "certificate.not-found"),
        ("garbage", "certificate.not-found"),
        ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "pem.malformed"),
        ("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", "certificate.malformed"),
        ("x" * 200_000, "certificate.too-large"),
    ],
    ids=["empty", "garbage", "no base64", "no certificate", "too long"],
)
def test_what_is_not_a_certificate_is_refused(text, code, qwacs):
    with refused(FormatError, code):
        qwacs.verify(PeerCertificate((text,), None, "asgi-tls"), at=AT)


@given(
    chain=st.lists(
        st.text(max_size=50) | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")), min_size=1, max_size=3
    )
)
def test_only_our_errors_escape_whatever_the_server_hands_over(chain, paths):
    with pytest.raises(TppkitError):
        QwacPolicy(paths).verify(PeerCertificate(tuple(chain), None, "asgi-tls"), at=AT)


def test_what_is_remembered_is_bounded_and_junk_beside_one_qwac_pushes_no_other_out(pki, paths):
    policy = QwacPolicy(paths)
    text = pem(pki.qwac.certificate)
    for number in range(1500):  # the same certificate, never the same text
        policy.verify(PeerCertificate((text + "\n" * number,), None, "asgi-tls"), at=AT)
    assert len(policy._verified_paths) <= 512
    qwacs = QwacPolicy(paths)
    other = pki.issue_qwac(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other-qwac")
    trusted = qwacs.verify(peer(pki.qwac.certificate), at=AT)
    sent = peer(other.certificate)
    for number in range(600):
        qwacs.verify(replace(sent, chain_pem=(sent.chain_pem[0], f"junk {number}")), at=AT)
    assert qwacs.verify(peer(pki.qwac.certificate), at=AT) is trusted


def test_another_provider_of_the_same_authority_is_trusted_as_itself(qwacs, pki):
    other: Issued = pki.issue_qwac(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other-qwac")
    assert qwacs.verify(peer(pki.qwac.certificate), at=AT).chain[0] == pki.qwac.certificate
    verified = qwacs.verify(peer(other.certificate), at=AT).chain[0]
    assert verified.organization_identifier is not None
    assert verified.organization_identifier.text == "PSDDE-BAFIN-999999"


@pytest.mark.parametrize(("identifier", "nca_id", "expected"), ORGANIZATIONS)
def test_a_qwac_is_judged_by_the_organization_that_it_names(identifier, nca_id, expected, qwacs, pki):
    presented = peer(issue_for(pki, "qwac", identifier, nca_id).certificate)
    for _ in range(2):  # a refusal is not remembered as trust
        if expected == "holds":
            assert qwacs.verify(presented, at=AT)
            continue
        with refused(CertificateRejected, expected):
            qwacs.verify(presented, at=AT)


def test_a_setting_of_the_gate_accepts_open_banking_uk(paths, pki):
    presented = peer(issue_for(pki, "qwac", "PSDGB-OB-0015800001", "GB-FCA").certificate)
    assert QwacPolicy(paths, organizations=OrganizationPolicy(match_authority=False)).verify(presented, at=AT)
