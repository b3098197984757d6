"""A test PKI: the same from a seed, different without, refused when it cannot be made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit.certificates import Use
from tppkit.errors import ConfigurationError
from tppkit.testpki import DEFAULT_DAYS, Pki, make_pki, make_provider
from tppkit.testpki.certificate import Draft
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def fingerprints(pki: Pki) -> list[str]:
    return [issued.certificate.sha256 for issued in pki.issued]


def public_bytes(key) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("kind", ["p256", "p384"])
def test_the_same_seed_and_day_give_the_same_bytes(kind):
    first = make_pki(at=AT, seed=7, key=kind)
    again = make_pki(at=AT.replace(hour=23, minute=59), seed=7, key=kind)
    assert fingerprints(first) == fingerprints(again)
    assert [i.key.private_numbers() for i in first.issued] == [i.key.private_numbers() for i in again.issued]


def test_an_rsa_authority_signs_the_same_bytes_again(rsa_pki):
    draft = Draft.of(rsa_pki.qwac.certificate)
    assert draft.sign(rsa_pki.qwac_ca.key) == draft.sign(rsa_pki.qwac_ca.key) == rsa_pki.qwac.certificate.der


def test_the_day_is_counted_in_utc():
    late = datetime(2026, 6, 2, 1, tzinfo=timezone(timedelta(hours=2)))
    assert fingerprints(make_pki(at=late, seed=7)) == fingerprints(make_pki(at=AT, seed=7))


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"at": AT + timedelta(days=1)}, {"days": 30}, {"key": "p384"}, {"seed": None}]
)
def test_another_seed_day_validity_or_kind_gives_other_bytes(other):
    first, second = make_pki(at=AT, seed=7), make_pki(**{"at": AT, "seed": 7, **other})
    leaves = {issued.label for issued in first.issued if issued.kind in ("qwac", "qseal", "server")}
    assert len(leaves) == 5
    for label in leaves:
        assert first.members[label].certificate != second.members[label].certificate


def test_a_seed_gives_the_same_keys_on_every_day():
    first, later = make_pki(at=AT, seed=7), make_pki(at=AT + timedelta(days=400), seed=7)
    assert [i.key.private_numbers() for i in first.issued] == [i.key.private_numbers() for i in later.issued]


def test_without_a_seed_every_key_and_serial_is_new():
    first, second = make_pki(at=AT), make_pki(at=AT)
    for one, other in zip(first.issued, second.issued, strict=True):
        assert one.certificate.serial != other.certificate.serial
        assert one.key.private_numbers() != other.key.private_numbers()


def test_every_key_fits_its_certificate(pki, rsa_pki):
    for issued in (*pki.issued, *rsa_pki.issued):
        assert public_bytes(issued.key.public_key()) == public_bytes(issued.certificate.public_key)


def test_a_p384_pki_signs_with_sha384(pki):
    made = make_pki(at=AT, key="p384", seed=1)
    assert {(i.certificate.key.curve, i.certificate.x509.signature_hash_algorithm.name) for i in made.issued} == {
        ("P-384", hashes.SHA384.name)
    }
    assert all(isinstance(i.key, ec.EllipticCurvePrivateKey) for i in made.issued)


def test_an_rsa_pki_signs_with_sha256(rsa_pki):
    for issued in rsa_pki.issued:
        assert isinstance(issued.key, rsa.RSAPrivateKey)
        assert issued.certificate.x509.signature_hash_algorithm.name == hashes.SHA256.name
        assert issued.certificate.key.bits == 2048


@pytest.mark.parametrize("days", [1, DEFAULT_DAYS, 36_500])
def test_leaves_are_valid_for_whole_days_from_midnight(days):
    pki = make_pki(at=AT, days=days, seed=1)
    for leaf in (pki.qwac, pki.qseal, pki.server):
        assert leaf.certificate.not_before == datetime(2026, 6, 1, tzinfo=UTC)
        assert leaf.certificate.not_after == datetime(2026, 6, 1, tzinfo=UTC) + timedelta(days=days, seconds=-1)


@pytest.mark.parametrize("days", [1, 36_500])
def test_authorities_live_at_least_as_long_as_their_leaves(days):
    pki = make_pki(at=AT, days=days, seed=1)
    assert all(authority.not_after >= pki.qwac.certificate.not_after for authority in pki.authorities)


@pytest.mark.parametrize("at", [datetime(1950, 1, 1, tzinfo=UTC), datetime(9899, 12, 31, tzinfo=UTC)])
def test_a_pki_of_the_first_and_the_last_possible_day_is_believed(at):
    pki = make_pki(at=at, days=36_500, seed=1)
    assert PathVerifier(make_anchors(pki.authorities)).verify_use(pki.qwac.certificate, as_=Use.QWAC, at=at)


def test_further_certificates_are_for_their_own_provider(pki, paths):
    other = make_provider(organization_identifier="PSDDE-BAFIN-999999", name="Other", dns_name="other.test.example.com")
    for issued, use in ((pki.issue_qwac(other, label="a"), Use.QWAC), (pki.issue_qseal(other, label="b"), Use.QSEALC)):
        assert issued.certificate.organization_identifier.text == "PSDDE-BAFIN-999999"
        assert paths.verify_use(issued.certificate, as_=use, at=AT).chain[-1] == pki.root.certificate


def test_a_certificate_with_its_key_shows_no_key():
    issued = make_pki(at=AT, seed=1).qwac
    number = issued.key.private_numbers().private_value
    assert repr(issued) == f"Issued(label='qwac', kind='qwac', subject={str(issued.certificate.subject)!r})"
    assert str(number) not in repr(issued)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"days": 0}, "pki.days"),
        ({"days": -1}, "pki.days"),
        ({"days": 36_501}, "pki.days"),
        ({"at": datetime(1949, 12, 31, tzinfo=UTC)}, "pki.days"),
        ({"at": datetime(9900, 1, 1, tzinfo=UTC)}, "pki.days"),
        ({"at": datetime(2026, 6, 1)}, "time.naive"),
        ({"key": "p521"}, "pki.key-kind"),
        ({"key": ""}, "pki.key-kind"),
        ({"key": "ed25519"}, "pki.key-kind"),
        ({"seal_key": "p521"}, "pki.key-kind"),
        ({"policy": "ov"}, "pki.policy"),
        ({"services_url": "ftp://host"}, "pki.services-url"),
        ({"services_url": "http://host/"}, "pki.services-url"),
        ({"services_url": "http://host/a b"}, "pki.services-url"),
    ],
)
def test_a_pki_that_cannot_be_made_is_refused(arguments, code):
    with pytest.raises(ConfigurationError) as refused:
        make_pki(**{"at": AT, **arguments})
    assert refused.value.code == code
