"""A test PKI in memory, with its keys and trusted lists: the same from a seed, different without, rejected if it cannot be made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from signxml import SignatureConfiguration, XMLVerifier
from signxml.exceptions import InvalidSignature

from refusals import refused
from tppkit.certificates import Use
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki import Pki, certificate_pem, make_pki, make_provider, write_pki
from tppkit.testpki.certificate import Draft
from tppkit.testpki.keys import KEY_KINDS, KeySource, load_key
from tppkit.testpki.pki import DEFAULT_DAYS
from tppkit.testpki.trusted_lists import LIST_FILES, make_trusted_lists
from tppkit.trust import PathVerifier, load_trusted_lists, make_anchors

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
    for label in ("qwac", "qseal", "other-qwac", "other-qseal", "server", "bank-seal"):
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
    with refused(ConfigurationError, code):
        make_pki(**{"at": AT, **arguments})


SIZES = {"p256": 256, "p384": 384, "rsa2048": 2048, "rsa3072": 3072, "rsa4096": 4096}


@pytest.mark.parametrize("kind", [kind for kind in KEY_KINDS if kind != "rsa4096"])  # which takes seconds
def test_a_key_has_the_size_of_its_kind(kind):
    assert KeySource(kind).make_key("a").key_size == SIZES[kind]


@pytest.mark.parametrize(
    ("kind", "private_value"),
    [
        ("p256", 0xF9482AA079373A306ECF8F38C022EC04E97DA854D3E245AEE0B29FAE6750E68C),
        ("p384", 0xF0B3276CD3E2AE3D7371953A19BE9AE961140450EA611DBFB20CD367C397FF1D18601C31D0AC4E103379C030F24C94B9),
    ],
)
def test_a_seed_gives_the_same_key_and_serial_in_every_version(kind, private_value):
    keys = KeySource(kind, seed=1)
    assert keys.make_key("qwac").private_numbers().private_value == private_value
    assert keys.make_serial("qwac") == 0x5810CE114A63ECBD88FCD366174D9158


def test_other_seeds_labels_and_kinds_give_other_keys():
    made = {
        KeySource(kind, seed=seed).make_key(label).private_numbers().private_value
        for kind in ("p256", "p384")
        for seed in (0, 1, -1)
        for label in ("a", "b", "")
    }
    assert len(made) == 18


@given(st.none() | st.integers(), st.text(max_size=5, alphabet="abc"))
def test_a_serial_number_is_positive_and_has_127_bits(seed, label):
    # RFC 5280 section 4.1.2.2: positive, at most 20 bytes; always 16 bytes of DER, so certificates are of equal length.
    assert KeySource(seed=seed).make_serial(label).bit_length() == 127


@pytest.mark.parametrize("kind", ["P256", "p521", "rsa1024", "ed25519", ""])
def test_an_unknown_kind_is_rejected(kind):
    with refused(ConfigurationError, "pki.key-kind"):
        KeySource(kind)


def test_a_seeded_rsa_key_is_reproducible_and_valid():
    first, again = KeySource("rsa2048", seed=0), KeySource("rsa2048", seed=0)
    key = first.make_key("a")
    assert key.private_numbers() == again.make_key("a").private_numbers()
    assert key.key_size == 2048
    key.public_key().verify(key.sign(b"data", PKCS1v15(), SHA256()), b"data", PKCS1v15(), SHA256())


def test_only_an_unencrypted_key_of_a_known_type_is_loaded():
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), x25519.X25519PrivateKey.generate()
    encrypted = ours.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    agreement = theirs.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    malformed = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    for data in (b"", malformed, b"\x00\xff", encrypted, agreement):
        with refused(FormatError, "pem.malformed"):
            load_key(data)


def test_a_key_that_a_tool_has_damaged_is_named_as_such():
    plain = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for data, fault in ((plain.replace(b"\n", b"\\n"), "backslash and n"), (plain.decode().encode("utf-16"), "UTF-16")):
        with pytest.raises(FormatError, match=fault):
            load_key(data)


SIGNERS = dict(zip(LIST_FILES, ("lotl-signer", "list-signer"), strict=True))
PROVIDERS = [{}, {"name": 'Smith & <Sons> "Ž" TEST', "organization_identifier": "PSDDE-BAFIN-1"}]


def verified(content: bytes, signer) -> list[bytes]:
    known = certificate_pem(signer.certificate).decode()
    expected = SignatureConfiguration(expect_references=2, require_x509=True)
    results = XMLVerifier().verify(content, x509_cert=known, expect_config=expected)
    return [etree.QName(result.signed_xml).localname for result in results]


@pytest.mark.parametrize("key", ["p256", "p384", "rsa2048"])
@pytest.mark.parametrize("facts", PROVIDERS)
def test_another_library_verifies_both_lists(pki, key, facts):
    made = make_pki(at=pki.not_before, key=key, provider=make_provider(**facts))
    for name, content in make_trusted_lists(made, at=made.not_before).items():
        assert verified(content, made.members[SIGNERS[name]]) == ["TrustServiceStatusList", "SignedProperties"]
        with pytest.raises(InvalidSignature):
            verified(content.replace(b"Vilnius", b"Vilnjus", 1), made.members[SIGNERS[name]])


def test_both_authorities_are_granted(pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    lists = load_trusted_lists(tmp_path / "pki" / "trusted-lists")
    at = pki.not_before + timedelta(days=1)
    for issued, purpose in ((pki.qwac, "web"), (pki.other_qwac, "web"), (pki.qseal, "eseal")):
        status = lists.status(issued.certificate, at=at, intermediates=issued.chain)
        assert status.qualified_for == (purpose,)
        assert lists.verify_qualified(issued.certificate, purpose=purpose, at=at, intermediates=issued.chain)


def test_what_another_pki_issued_is_not_qualified(pki, rsa_pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    lists = load_trusted_lists(tmp_path / "pki" / "trusted-lists")
    other = rsa_pki.qwac
    assert lists.status(other.certificate, at=pki.not_before, intermediates=other.chain).qualified_for == ()


@pytest.mark.parametrize("organization", ["PSDLT-BL-LB000000", "PSDLT-BL-LB900000"])
def test_the_bank_seal_is_of_a_bank_that_is_no_provider_of_the_pki(organization):
    pki = make_pki(at=AT, provider=make_provider(organization_identifier=organization), seed=7, seal_key="ed25519")
    bank = pki.bank_seal.certificate
    assert (bank.roles, bank.qc.types, bank.key.type) == (("PSP_AS",), ("eseal",), "ec")
    providers = {one.certificate.organization_identifier.text for one in (pki.qseal, pki.other_qseal)}
    assert bank.organization_identifier.text not in providers
    path = PathVerifier(make_anchors(pki.authorities)).verify_use(bank, as_=Use.QSEALC, at=AT)
    assert path.chain[1:] == (pki.qseal_ca.certificate, pki.root.certificate)
