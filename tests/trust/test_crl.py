"""What a CRL says of a certificate, and which CRLs are refused."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest
from answering import AT, HOLD, HOUR, ODD, because, edited, make_crl, point
from asn1crypto import core
from asn1crypto import crl as asn1_crl
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._cache import Cache
from tppkit.certificates import der
from tppkit.errors import FormatError, VerificationError
from tppkit.testpki.profiles import authority_extensions, key_usage
from tppkit.trust import State
from tppkit.trust.revocation.crl import verify_crl
from tppkit.trust.revocation.crl_entries import MAX_PART_BYTES
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES, MAX_CRLS, MAX_ENTRIES, parse_crl, parse_crls

SUPERSEDED = because(x509.ReasonFlags.superseded)
POINT = x509.UniformResourceIdentifier("http://crl.example.com/1.crl")


@pytest.fixture(scope="module")
def issuer(certify):
    return certify("Issuing")


@pytest.fixture(scope="module")
def leaf(certify, issuer):
    points = x509.CRLDistributionPoints([x509.DistributionPoint([POINT], None, None, None)])
    return certify("leaf", issuer, extensions=(key_usage("digital_signature"), (points, False)))


def answer(crl, leaf, issuer):
    return verify_crl(crl, certificate=leaf.certificate, issuer=issuer.certificate)


def refusal(crl, leaf, issuer) -> str:
    with pytest.raises(VerificationError) as refused:
        answer(crl, leaf, issuer)
    return refused.value.code


def test_what_is_not_listed_is_good(leaf, issuer):
    said = answer(make_crl(issuer, at=AT), leaf, issuer)
    assert (said.state, said.this_update, said.next_update) == (State.GOOD, AT, AT + timedelta(days=1))
    assert said.signer == issuer.certificate


def test_what_is_listed_is_revoked_with_date_and_reason(leaf, issuer):
    entry = (
        *because(x509.ReasonFlags.key_compromise),
        (x509.InvalidityDate((AT - HOUR).replace(tzinfo=None)), False),
    )
    said = answer(make_crl(issuer, leaf, at=AT, when=AT - HOUR / 2, entry_extensions=entry), leaf, issuer)
    assert (said.state, said.revoked_at, said.reason) == (State.REVOKED, AT - HOUR / 2, "key_compromise")
    assert said.invalid_since == AT - HOUR


def test_another_serial_number_is_not_this_one(certify, leaf, issuer):
    assert answer(make_crl(issuer, certify("other", issuer), at=AT), leaf, issuer).state is State.GOOD


def test_another_authoritys_list_is_refused(certify, leaf, issuer):
    assert refusal(make_crl(certify("Other"), at=AT), leaf, issuer) == "crl.other-issuer"


def test_a_list_of_an_authority_above_is_refused_unless_it_is_indirect(certify, leaf, issuer):
    above = certify("Above")
    crl = make_crl(above, at=AT, extensions=[point(full_name=[POINT])])
    with refused(VerificationError, "crl.other-issuer"):
        verify_crl(crl, certificate=leaf.certificate, issuer=issuer.certificate, above=[above.certificate])


def test_a_list_of_another_key_or_that_was_changed_is_refused(certify, leaf, issuer):
    crl = make_crl(issuer, leaf, at=AT)
    changed = crl.der[:-1] + bytes([crl.der[-1] ^ 1])
    another_key = make_crl(issuer, at=AT, key=ec.generate_private_key(ec.SECP256R1()))
    for forged in (make_crl(certify("Issuing"), at=AT), parse_crl(changed), another_key):
        assert refusal(forged, leaf, issuer) == "crl.signature"


def test_a_list_with_a_long_name_in_another_script_is_read_without_a_warning(certify, leaf, issuer):
    filler = certify("filler", issuer, ca=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the builder; other warnings are errors
        greek = x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Ω" * 60, _validate=False)]))
        named = x509.CertificateIssuer([x509.DirectoryName(issuer.certificate.x509.subject), greek])
        crl = make_crl(
            issuer, filler, leaf, at=AT, extensions=[point(full_name=[greek], indirect_crl=True)],
            entry_extensions=[[(x509.CertificateIssuer([greek]), True)], [(named, True), *SUPERSEDED]],
        )  # fmt: skip
    said = answer(parse_crl(crl.der), leaf, issuer)
    assert (said.state, said.reason) == (State.REVOKED, "superseded")


def test_an_entry_with_an_unreadable_date_revokes_since_always(leaf, issuer):
    crl = make_crl(issuer, leaf, at=AT, when=datetime(2050, 1, 1, tzinfo=UTC))
    said = answer(edited(crl, issuer.key, b"20500101000000Z", b"00000101000000Z"), leaf, issuer)
    assert (said.state, said.revoked_at) == (State.REVOKED, datetime.min.replace(tzinfo=UTC))


def test_an_extension_that_appears_twice_is_malformed(issuer):
    other = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.999.2"), ODD.value)
    crl = make_crl(issuer, at=AT, extensions=[(ODD, False), (other, False)])
    with refused(FormatError, "crl.malformed"):
        edited(crl, issuer.key, der.write_oid("2.999.2"), der.write_oid("2.999.1"))


def test_a_list_of_an_authority_that_may_not_sign_lists_only_revokes(certify):
    basic = authority_extensions(path_length=None)[0]
    issuer = certify("Issuing", extensions=(basic, key_usage("key_cert_sign")))
    leaf = certify("leaf", issuer, ca=False)
    assert refusal(make_crl(issuer, at=AT), leaf, issuer) == "crl.key-usage"
    said = answer(make_crl(issuer, leaf, at=AT), leaf, issuer)
    assert (said.state, said.only_revokes.code) == (State.REVOKED, "crl.key-usage")


def test_a_list_from_after_its_authority_ended_only_revokes(leaf, issuer):
    ended = issuer.certificate.not_after
    assert answer(make_crl(issuer, at=ended), leaf, issuer).state is State.GOOD
    late = {"at": ended + timedelta(seconds=1)}
    assert refusal(make_crl(issuer, **late), leaf, issuer) == "crl.dates"
    assert answer(make_crl(issuer, leaf, **late), leaf, issuer).only_revokes.code == "crl.dates"


@pytest.mark.parametrize(
    "parts",
    [
        {"only_contains_ca_certs": True},
        {"only_contains_attribute_certs": True},
        {"only_some_reasons": frozenset({x509.ReasonFlags.key_compromise})},
        {"full_name": [x509.UniformResourceIdentifier("http://crl.example.com/2.crl")]},
        {"relative_name": x509.RelativeDistinguishedName([x509.NameAttribute(x509.NameOID.COMMON_NAME, "part 1")])},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_a_list_of_another_scope_is_refused(leaf, issuer, parts):
    assert refusal(make_crl(issuer, at=AT, extensions=[point(**parts)]), leaf, issuer) == "crl.scope"


@pytest.mark.parametrize(
    "parts", [{"only_contains_user_certs": True}, {"full_name": [POINT]}], ids=lambda parts: next(iter(parts))
)
def test_a_list_of_this_scope_counts(leaf, issuer, parts):
    assert answer(make_crl(issuer, at=AT, extensions=[point(**parts)]), leaf, issuer).state is State.GOOD


def test_a_point_named_by_what_no_certificate_can_name_is_refused(issuer):
    network = point(full_name=[x509.IPAddress(ip_network("10.0.0.0/8"))])  # eight bytes, where an address has four
    with refused(FormatError, "crl.malformed"):
        make_crl(issuer, at=AT, extensions=[network])


def test_a_list_of_end_entities_says_nothing_of_an_authority(certify, issuer):
    below = certify("Below", issuer)
    crl = make_crl(issuer, at=AT, extensions=[point(only_contains_user_certs=True)])
    assert refusal(crl, below, issuer) == "crl.scope"


def test_an_unknown_critical_extension_is_refused(leaf, issuer):
    assert refusal(make_crl(issuer, at=AT, extensions=[(ODD, True)]), leaf, issuer) == "crl.critical-extension"
    assert answer(make_crl(issuer, at=AT, extensions=[(ODD, False)]), leaf, issuer)


def test_a_critical_extension_of_any_entry_is_refused_where_it_could_hide_this_one(certify, leaf, issuer):
    other = certify("other", issuer)
    crl = make_crl(issuer, other, at=AT, entry_extensions=[(ODD, True)])
    assert refusal(crl, leaf, issuer) == "crl.critical-extension"
    assert answer(crl, other, issuer).state is State.REVOKED


def test_without_critical_extensions_a_malformed_one_of_another_entry_is_no_obstacle(certify, leaf, issuer):
    entry = [
        *SUPERSEDED,
        (x509.InvalidityDate(AT.replace(tzinfo=None)), False),
    ]
    crl = make_crl(issuer, certify("other", issuer), at=AT, entry_extensions=entry)
    twice = edited(crl, issuer.key, b"\x06\x03\x55\x1d\x18", b"\x06\x03\x55\x1d\x15")
    assert answer(twice, leaf, issuer).state is State.GOOD


def test_a_critical_reason_of_another_entry_is_no_obstacle(certify, leaf, issuer):
    entry = [(x509.CRLReason(x509.ReasonFlags.superseded), True)]
    crl = make_crl(issuer, certify("other", issuer), at=AT, entry_extensions=entry)
    assert answer(crl, leaf, issuer).state is State.GOOD


def test_a_weak_signature_is_refused(certify, issuer, leaf):
    crl = make_crl(issuer, at=AT, algorithm=hashes.SHA224())
    assert refusal(crl, leaf, issuer) == "crl.weak-signature"


def test_expired_certificates_that_stay_listed_are_reported(leaf, issuer):
    since = core.GeneralizedTime(AT).dump()
    kept = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.60"), since)
    assert answer(make_crl(issuer, at=AT, extensions=[(kept, False)]), leaf, issuer).kept_since == AT


@pytest.mark.parametrize("text", [b"20260601000000", b"00000601000000Z"], ids=["without zone", "year 0"])
def test_a_time_that_cannot_be_compared_is_not_reported(leaf, issuer, text):
    since = der.write_element(0x18, text)
    kept = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.60"), since)
    assert answer(make_crl(issuer, at=AT, extensions=[(kept, False)]), leaf, issuer).kept_since is None


def test_pem_is_read_like_der(issuer):
    crl = make_crl(issuer, at=AT)
    assert parse_crl(crl.x509.public_bytes(Encoding.PEM)) == crl


def test_der_is_not_taken_for_the_pem_inside_it(issuer):
    inside = x509.UnrecognizedExtension(ODD.oid, make_crl(issuer, at=AT).x509.public_bytes(Encoding.PEM))
    assert ODD.oid.dotted_string in make_crl(issuer, at=AT, extensions=[(inside, False)]).extensions


def test_too_many_bytes_are_refused():
    with refused(FormatError, "crl.too-large"):
        parse_crl(bytes(MAX_CRL_BYTES + 1))


def test_a_list_with_a_name_or_extensions_of_any_size_is_refused(leaf, issuer):
    large = x509.UnrecognizedExtension(ODD.oid, bytes(MAX_PART_BYTES))
    with refused(FormatError, "crl.malformed"):
        make_crl(issuer, at=AT, extensions=[(large, False)])
    crl = asn1_crl.CertificateList.load(make_crl(issuer, at=AT).der)
    crl["tbs_cert_list"]["issuer"] = asn1_x509.Name.build({"common_name": "\ufdfa" * MAX_PART_BYTES})
    with refused(FormatError, "crl.malformed"):
        parse_crl(crl.dump(force=True))
    indirect = make_crl(issuer, leaf, at=AT, extensions=[point(indirect_crl=True)], entry_extensions=[(large, False)])
    assert refusal(indirect, leaf, issuer) == "crl.indirect"


def test_several_lists_in_the_place_of_one_are_counted_before_they_are_read(issuer):
    first = make_crl(issuer, at=AT).x509.public_bytes(Encoding.PEM)
    malformed = b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
    with pytest.raises(FormatError, match="2 CRLs instead of one"):
        parse_crl(first + malformed)


def test_every_block_of_a_pem_file_is_read(issuer, leaf):
    crls = make_crl(issuer, at=AT), make_crl(issuer, leaf, at=AT)
    first, second = (crl.x509.public_bytes(Encoding.PEM) for crl in crls)
    certificate = leaf.certificate.x509.public_bytes(Encoding.PEM)
    assert parse_crls(b"text before\n" + first + certificate + second) == crls
    damaged = second.replace(b"\n-----END", b"\n!-----END"), second[:-30], second[:60] + second[80:]
    for data, parse in ((first + second, parse_crl), *((first + other, parse_crls) for other in damaged)):
        with refused(FormatError, "crl.malformed"):
            parse(data)
    with refused(FormatError, "crl.too-large"):
        parse_crls(first * (MAX_CRLS + 1))


@given(st.binary(max_size=300))
def test_only_format_error_escapes(raw):
    with refused(FormatError, "crl.malformed"):
        parse_crl(raw)


@pytest.fixture(scope="module")
def full(certify, issuer, leaf):
    extensions = [point(full_name=[POINT]), (x509.CRLNumber(7), False)]
    entry = SUPERSEDED
    return make_crl(issuer, leaf, at=AT, extensions=extensions, entry_extensions=entry).der


@given(data=st.data())
def test_a_damaged_list_is_refused_or_says_the_same(full, leaf, issuer, data):
    damaged = bytearray(full)
    place = data.draw(st.integers(0, len(full) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    try:
        said = answer(parse_crl(bytes(damaged)), leaf, issuer)
    except (FormatError, VerificationError):
        return
    assert said.state is State.REVOKED


def test_a_list_of_an_unknown_version_is_malformed(full):
    with refused(FormatError, "crl.malformed"):
        parse_crl(full.replace(b"\x02\x01\x01", b"\x02\x01\x30", 1))


def test_entries_are_read_once_and_only_where_one_could_mean_more(leaf, issuer):
    crl = make_crl(issuer, leaf, at=AT, extensions=[point(full_name=[POINT])])
    assert crl.fault_of_entries is None
    assert "fault_of_entries" in vars(crl)
    odd = make_crl(issuer, leaf, at=AT, entry_extensions=[(ODD, True)])
    assert odd.fault_of_entries is odd.fault_of_entries


FINAL, REMOVED = x509.ReasonFlags.key_compromise, x509.ReasonFlags.remove_from_crl


@pytest.mark.parametrize("turn", [1, -1], ids=["in this order", "reversed"])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(HOLD, AT - HOUR), (FINAL, AT)], ("key_compromise", AT - HOUR)),
        ([(REMOVED, AT - HOUR), (FINAL, AT)], ("key_compromise", AT)),
        ([(REMOVED, AT), (HOLD, AT - HOUR)], ("certificate_hold", AT - HOUR)),
        ([(FINAL, AT), (FINAL, AT - HOUR)], ("key_compromise", AT - HOUR)),
        ([(None, AT), (HOLD, AT)], (None, AT)),
    ],
)
def test_of_several_entries_the_worst_counts(leaf, issuer, entries, expected, turn):
    listed = [because(why) if why else [] for why, _ in entries][::turn]
    crl = make_crl(
        issuer, *[leaf] * len(entries), at=AT, entry_extensions=listed, when=[when for _, when in entries][::turn]
    )
    said = answer(crl, leaf, issuer)
    assert (said.state, said.reason, said.revoked_at) == (State.REVOKED, *expected)


def test_of_several_entries_the_earliest_invalidity_date_counts(leaf, issuer):
    dates = [AT - HOUR, AT - 2 * HOUR, AT]
    entries = [[(x509.InvalidityDate(date.replace(tzinfo=None)), False)] for date in dates]
    assert answer(make_crl(issuer, *[leaf] * 3, at=AT, entry_extensions=entries), leaf, issuer).invalid_since == min(
        dates
    )


def test_a_certificate_with_too_many_entries_is_revoked_since_always(leaf, issuer):
    def since(count: int) -> datetime:
        return answer(make_crl(issuer, *[leaf] * count, at=AT), leaf, issuer).revoked_at

    assert (since(MAX_ENTRIES), since(MAX_ENTRIES + 1)) == (AT, datetime.min.replace(tzinfo=UTC))


def test_every_entry_is_found_by_its_serial_number(certify, leaf, issuer):
    others = [certify(f"other {number}", issuer, ca=False) for number in range(9)]
    crl = make_crl(issuer, *others, at=AT)
    for serial in (other.certificate.serial for other in others):
        assert [entry.serial for entry in crl.entries_of(serial, crl.issuer)] == [serial]
    assert crl.entries_of(leaf.certificate.serial, crl.issuer) == []


def test_a_signature_that_held_is_remembered_for_this_list_and_this_authority_only(certify, leaf, issuer):
    signed = Cache[tuple[str, str], bool](8)
    crl, namesake = make_crl(issuer, at=AT), certify("Issuing")
    for _ in range(2):
        assert verify_crl(crl, certificate=leaf.certificate, issuer=issuer.certificate, signed=signed)
    for forged, authority in ((crl, namesake), (make_crl(issuer, at=AT, key=namesake.key), issuer)):
        for _ in range(2):
            with refused(VerificationError, "crl.signature"):
                verify_crl(forged, certificate=leaf.certificate, issuer=authority.certificate, signed=signed)
    assert signed.values() == (True, False, False)


def test_a_signature_that_did_not_hold_is_not_verified_again(leaf, issuer):
    crl = make_crl(issuer, at=AT)
    signed = Cache[tuple[str, str], bool](8)
    signed.put((crl.sha256, issuer.certificate.sha256), False)
    with refused(VerificationError, "crl.signature"):
        verify_crl(crl, certificate=leaf.certificate, issuer=issuer.certificate, signed=signed)


def test_an_entry_that_only_delta_lists_may_have_is_malformed(leaf, issuer):
    entry = [(x509.CRLReason(x509.ReasonFlags.remove_from_crl), False)]
    crl = make_crl(issuer, leaf, at=AT, entry_extensions=entry)
    assert refusal(crl, leaf, issuer) == "crl.malformed"


def test_number_and_series_of_a_list_are_reported(leaf, issuer):
    numbered = answer(make_crl(issuer, at=AT, extensions=[(x509.CRLNumber(7), False)]), leaf, issuer)
    part = point(only_contains_user_certs=True)
    partial = answer(make_crl(issuer, at=AT, extensions=[part]), leaf, issuer)
    assert (numbered.number, numbered.series) == (7, b"")
    assert (partial.number, partial.series) == (None, part[0].public_bytes())


def test_the_base_of_a_delta_list_is_read(issuer):
    delta = make_crl(issuer, at=AT, extensions=[(x509.DeltaCRLIndicator(3), True)])
    assert (delta.base_number, make_crl(issuer, at=AT).base_number) == (3, None)
