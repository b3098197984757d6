"""A test PKI: the same from a seed, different without, rejected if it cannot be made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tppkit.certificates import Use
from tppkit.errors import ConfigurationError
from tppkit.testpki import Pki, make_pki
from tppkit.testpki.certificate import Draft
from tppkit.testpki.pki import DEFAULT_DAYS
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ders(pki: Pki) -> list[bytes]:
    return [issued.certificate.der for issued in pki.issued]


def private_numbers(pki: Pki) -> list[object]:
    return [issued.key.private_numbers() for issued in pki.issued]


def test_the_day_is_that_of_utc():
    late = datetime(2026, 6, 2, 1, tzinfo=timezone(timedelta(hours=2)))
    assert ders(make_pki(at=late, seed=7)) == ders(make_pki(at=AT, seed=7))


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"at": AT + timedelta(days=1)}, {"days": 30}, {"key": "p384"}, {"seed": None}]
)
def test_another_seed_day_validity_or_kind_gives_other_bytes(other):
    first, second = make_pki(at=AT, seed=7), make_pki(**{"at": AT, "seed": 7, **other})
    for label in ("qwac", "qseal", "other-qwac", "other-qseal", "server"):
        assert first.members[label].certificate != second.members[label].certificate


def test_a_seed_gives_the_same_keys_on_every_day_and_without_one_every_key_is_new():
    first, later = make_pki(at=AT, seed=7), make_pki(at=AT + timedelta(days=400), seed=7)
    assert private_numbers(first) == private_numbers(later)
    for one, other in zip(make_pki(at=AT).issued, make_pki(at=AT).issued, strict=True):
        assert one.certificate.serial != other.certificate.serial
        assert one.key.private_numbers() != other.key.private_numbers()


def test_every_key_belongs_to_its_certificate_and_signs_with_the_hash_that_fits(pki, rsa_pki):
    expected = {
        "sha256": (pki, rsa_pki),
        "sha384": (make_pki(at=AT, key="p384", seed=1),),
    }
    for hash_name, made in expected.items():
        for issued in (issued for one in made for issued in one.issued):
            assert issued.key.public_key() == issued.certificate.public_key
            assert issued.certificate.x509.signature_hash_algorithm.name == hash_name
    assert all(isinstance(issued.key, rsa.RSAPrivateKey) for issued in rsa_pki.issued)
    assert all(isinstance(issued.key, ec.EllipticCurvePrivateKey) for issued in pki.issued)


def test_an_rsa_authority_signs_the_same_bytes_again(rsa_pki):
    assert Draft.of(rsa_pki.qwac.certificate).sign(rsa_pki.qwac_ca.key) == rsa_pki.qwac.certificate.der


@pytest.mark.parametrize("days", [1, DEFAULT_DAYS, 36_500])
def test_leaves_are_valid_for_whole_days_within_the_validity_of_their_authorities(days):
    pki, start = make_pki(at=AT, days=days, seed=1), datetime(2026, 6, 1, tzinfo=UTC)
    for leaf in (pki.qwac.certificate, pki.qseal.certificate, pki.server.certificate):
        assert (leaf.not_before, leaf.not_after) == (start, start + timedelta(days=days, seconds=-1))
        assert all(authority.not_after >= leaf.not_after for authority in pki.authorities)


@pytest.mark.parametrize("at", [datetime(1950, 1, 1, tzinfo=UTC), datetime(9899, 12, 31, tzinfo=UTC)])
def test_a_pki_of_the_first_and_the_last_possible_day_is_trusted(at):
    pki = make_pki(at=at, days=36_500, seed=1)
    assert PathVerifier(make_anchors(pki.authorities)).verify_use(pki.qwac.certificate, as_=Use.QWAC, at=at)


def test_a_certificate_with_its_key_shows_no_key(pki):
    assert repr(pki.qwac) == f"Issued(label='qwac', kind='qwac', subject={str(pki.qwac.certificate.subject)!r})"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"days": 0}, "pki.days"), ({"days": -1}, "pki.days"), ({"days": 36_501}, "pki.days"),
        ({"at": datetime(1949, 12, 31, tzinfo=UTC)}, "pki.days"), ({"at": datetime(9900, 1, 1, tzinfo=UTC)}, "pki.days"),
        ({"at": datetime(2026, 6, 1)}, "time.naive"), ({"key": "p521"}, "pki.key-kind"), ({"key": ""}, "pki.key-kind"),
        ({"key": "ed25519"}, "pki.key-kind"), ({"seal_key": "p521"}, "pki.key-kind"), ({"policy": "ov"}, "pki.policy"),
        ({"services_url": "ftp://host"}, "pki.services-url"), ({"services_url": "http://host/"}, "pki.services-url"),
        ({"services_url": "http://host/a b"}, "pki.services-url"), ({"services_url": "http://host/a/"}, "pki.services-url"),
    ],
)  # fmt: skip
def test_a_pki_that_cannot_be_made_is_rejected(arguments, code):
    with pytest.raises(ConfigurationError) as refused:
        make_pki(**{"at": AT, **arguments})
    assert refused.value.code == code
