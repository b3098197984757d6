"""What an OCSP response says of a certificate, and which responses are refused."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from answering import AT, GOOD, ODD, REVOKED, UNKNOWN, edited_ocsp, make_ocsp
from asn1crypto import ocsp as asn1_ocsp
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.certificates import EidasCertificate, oids
from tppkit.errors import FormatError, VerificationError
from tppkit.testpki.certificate import Attribute, Draft, for_key
from tppkit.testpki.profiles import key_usage
from tppkit.trust import State
from tppkit.trust.revocation.ocsp import verify_ocsp
from tppkit.trust.revocation.ocsp_response import MAX_OCSP_BYTES, make_ocsp_request, parse_ocsp_response

# The builder writes the machine's present as producedAt, so responders must be valid then.
LONG = {"starts": datetime(2020, 1, 1, tzinfo=UTC), "ends": datetime(2049, 1, 1, tzinfo=UTC)}
SIGNS_OCSP = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.OCSP_SIGNING]), False)
NO_CHECK = (x509.OCSPNoCheck(), False)
RESPONDER = (key_usage("digital_signature"), SIGNS_OCSP, NO_CHECK)


@pytest.fixture(scope="module")
def issuer(certify):
    return certify("Issuing", **LONG)


@pytest.fixture(scope="module")
def leaf(certify, issuer):
    return certify("leaf", issuer, ca=False)


@pytest.fixture(scope="module")
def responder(certify, issuer):
    return certify("Responder", issuer, extensions=RESPONDER, **LONG)


def answer(response, leaf, issuer, **options):
    return verify_ocsp(response, certificate=leaf.certificate, issuer=issuer.certificate, **options)


def refusal(response, leaf, issuer, **options) -> str:
    with pytest.raises(VerificationError) as refused:
        answer(response, leaf, issuer, **options)
    return refused.value.code


@pytest.mark.parametrize("named", [hashes.SHA1(), hashes.SHA256()], ids=["SHA-1", "SHA-256"])
@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "by key"])
def test_the_issuer_answers_for_its_certificate(leaf, issuer, named, by_name):
    said = answer(make_ocsp(leaf, issuer, at=AT, named=named, by_name=by_name), leaf, issuer)
    assert (said.state, said.this_update, said.next_update) == (State.GOOD, AT, AT + timedelta(days=1))
    assert said.signer == issuer.certificate
    assert said.findings == ()


@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "by key"])
def test_a_responder_that_the_issuer_certified_answers(leaf, issuer, responder, by_name):
    said = answer(make_ocsp(leaf, issuer, at=AT, responder=responder, by_name=by_name), leaf, issuer)
    assert said.signer == responder.certificate
    assert said.findings == ()


def test_a_responder_of_a_long_name_in_another_script_answers_without_a_warning(leaf, issuer, responder):
    named = replace(Draft.of(responder.certificate), subject=(Attribute(oids.COMMON_NAME, "Ω" * 60),))
    greek = responder._replace(certificate=EidasCertificate.from_der(named.sign(issuer.key)))
    with pytest.warns(UserWarning, match="64"):  # what another reader gives
        _ = greek.certificate.x509.subject
    response = make_ocsp(leaf, issuer, at=AT, responder=greek, by_name=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answer(response, leaf, issuer).signer == greek.certificate


@pytest.mark.parametrize("marked", [True, False])
def test_whether_a_responder_could_be_revoked_itself_is_reported(certify, leaf, issuer, marked):
    responder = certify("Responder", issuer, extensions=RESPONDER if marked else RESPONDER[:2], **LONG)
    said = answer(make_ocsp(leaf, issuer, at=AT, responder=responder), leaf, issuer)
    assert said.signer_may_be_revoked is not marked


REVOKED_AT = datetime(2026, 5, 2, 3, 4, 5, tzinfo=UTC)
SHA1_OID = b"\x2b\x0e\x03\x02\x1a"
YEAR_0, ODD_REASON = (b"20260502030405Z", b"00000502030405Z"), (b"\xa0\x03\x0a\x01\x01", b"\xa0\x03\x0a\x01\x63")


@pytest.mark.parametrize(
    ("change", "revoked_at", "reason"),
    [(YEAR_0, datetime.min.replace(tzinfo=UTC), "key_compromise"), (ODD_REASON, REVOKED_AT, None)],
    ids=["year 0", "unknown reason"],
)
def test_an_unreadable_date_or_reason_still_revokes(leaf, issuer, change, revoked_at, reason):
    revoked = make_ocsp(leaf, issuer, at=AT, status=REVOKED, when=REVOKED_AT, reason=x509.ReasonFlags.key_compromise)
    said = answer(edited_ocsp(revoked, issuer.key, *change), leaf, issuer)
    assert (said.state, said.revoked_at, said.reason) == (State.REVOKED, revoked_at, reason)


def test_a_single_response_with_an_unknown_hash_does_not_hide_another(leaf, issuer):
    unknown = make_ocsp(leaf, issuer, at=AT, named=hashes.SHA1())
    revoked = make_ocsp(leaf, issuer, at=AT, status=REVOKED, more=[unknown])
    hidden = edited_ocsp(revoked, issuer.key, SHA1_OID, SHA1_OID[:-1] + b"\x7f")
    assert answer(hidden, leaf, issuer).state is State.REVOKED


def test_a_response_about_a_time_after_it_was_signed_is_refused(leaf, issuer):
    within, after = AT - timedelta(minutes=5), AT - timedelta(minutes=6)
    assert answer(make_ocsp(leaf, issuer, at=AT, produced_at=within), leaf, issuer)
    assert refusal(make_ocsp(leaf, issuer, at=AT, produced_at=after), leaf, issuer) == "ocsp.dates"


def test_a_response_is_no_longer_fresh_than_its_responders_certificate(certify, leaf, issuer):
    ends = AT + timedelta(hours=1)
    responder = certify("Responder", issuer, extensions=RESPONDER, ends=ends)
    said = answer(make_ocsp(leaf, issuer, at=AT, lasts=timedelta(days=900), responder=responder), leaf, issuer)
    assert said.fresh_until() == ends
    late = make_ocsp(leaf, issuer, at=ends + timedelta(minutes=1), produced_at=ends, responder=responder)
    assert refusal(late, leaf, issuer) == "ocsp.dates"


@pytest.mark.parametrize("first", [GOOD, REVOKED])
def test_of_several_single_responses_a_revocation_counts(leaf, issuer, first):
    second = ({GOOD, REVOKED} - {first}).pop()
    more = [make_ocsp(leaf, issuer, at=AT, status=second)]
    assert answer(make_ocsp(leaf, issuer, at=AT, status=first, more=more), leaf, issuer).state is State.REVOKED


@pytest.mark.parametrize("earlier_reason", [x509.ReasonFlags.certificate_hold, x509.ReasonFlags.superseded])
@pytest.mark.parametrize("earlier_first", [True, False])
def test_of_several_revocations_the_earliest_date_and_a_final_reason_count(leaf, issuer, earlier_reason, earlier_first):
    final, early = x509.ReasonFlags.superseded, AT - timedelta(days=90)
    made = [{"at": AT - timedelta(hours=1), "when": early, "reason": earlier_reason}, {"at": AT, "reason": final}]
    first, second = [{"status": REVOKED, **one} for one in (made if earlier_first else reversed(made))]
    said = answer(make_ocsp(leaf, issuer, more=[make_ocsp(leaf, issuer, **second)], **first), leaf, issuer)
    assert (said.state, said.revoked_at, said.reason) == (State.REVOKED, early, "superseded")


def test_of_several_single_responses_about_others_ours_is_found(certify, leaf, issuer):
    other = certify("other", issuer, ca=False)
    more = [make_ocsp(leaf, issuer, at=AT, status=REVOKED)]
    assert answer(make_ocsp(other, issuer, at=AT, more=more), leaf, issuer).state is State.REVOKED


@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "by key"])
def test_a_responder_that_sends_its_former_certificate_too_counts(certify, leaf, issuer, responder, by_name):
    former = certify("Responder", issuer, extensions=RESPONDER, ends=AT - timedelta(days=1))
    response = make_ocsp(leaf, issuer, at=AT, responder=responder, by_name=by_name, certificates=[former])
    assert answer(response, leaf, issuer).signer == responder.certificate


def test_no_more_than_ten_certificates_of_a_response_are_tried(certify, leaf, issuer, responder):
    former = certify("Responder", issuer, extensions=RESPONDER, ends=AT - timedelta(days=1))

    def response(count: int):
        return make_ocsp(leaf, issuer, at=AT, responder=responder, by_name=True, certificates=[former] * count)

    assert answer(response(9), leaf, issuer)
    assert refusal(response(10), leaf, issuer) == "ocsp.stranger"


def test_a_revocation_is_reported_with_date_and_reason(leaf, issuer):
    when = AT - timedelta(hours=3)
    response = make_ocsp(leaf, issuer, at=AT, status=REVOKED, when=when, reason=x509.ReasonFlags.superseded)
    said = answer(response, leaf, issuer)
    assert (said.state, said.revoked_at, said.reason) == (State.REVOKED, when, "superseded")


def test_invalidity_date_and_archive_cutoff_of_a_single_response_are_reported(leaf, issuer):
    lost, kept = AT - timedelta(days=2), AT - timedelta(days=900)
    extensions = [
        {"extn_id": "invalidity_date", "critical": True, "extn_value": lost},
        {"extn_id": "archive_cutoff", "extn_value": kept},
    ]
    response = make_ocsp(leaf, issuer, at=AT, status=REVOKED, single_extensions=extensions)
    said = answer(response, leaf, issuer)
    assert (said.invalid_since, said.kept_since, said.only_revokes) == (lost, kept, None)


def test_the_earliest_invalidity_date_of_those_that_revoke_counts(leaf, issuer):
    def single(hours: int, status=REVOKED, **made):
        since = {"extn_id": "invalidity_date", "extn_value": AT - timedelta(hours=hours)}
        return make_ocsp(leaf, issuer, at=AT, status=status, single_extensions=[since], **made)

    good = single(9, GOOD)
    assert answer(single(1, more=[single(2), good]), leaf, issuer).invalid_since == AT - timedelta(hours=2)
    assert answer(good, leaf, issuer).invalid_since is None


def test_what_the_responder_does_not_know_is_unknown(leaf, issuer):
    response = make_ocsp(leaf, issuer, at=AT, status=UNKNOWN)
    assert answer(response, leaf, issuer).state is State.UNKNOWN


@pytest.mark.parametrize("status", [s for s in ocsp.OCSPResponseStatus if s is not ocsp.OCSPResponseStatus.SUCCESSFUL])
def test_no_answer_is_not_an_answer(leaf, issuer, status):
    der = ocsp.OCSPResponseBuilder.build_unsuccessful(status).public_bytes(Encoding.DER)
    assert refusal(parse_ocsp_response(der), leaf, issuer) == "ocsp.status"


def test_an_answer_about_another_certificate_is_refused(certify, leaf, issuer):
    other = certify("other", issuer, ca=False)
    assert refusal(make_ocsp(other, issuer, at=AT), leaf, issuer) == "ocsp.other-certificate"


def test_the_same_serial_number_of_another_issuer_is_another_certificate(certify, leaf, issuer):
    namesake = certify("Issuing", **LONG)
    assert refusal(make_ocsp(leaf, namesake, at=AT), leaf, issuer) == "ocsp.other-certificate"


@pytest.mark.parametrize(
    ("extensions", "signed_by", "dates"),
    [
        (RESPONDER, "another authority", LONG),
        (RESPONDER, "a namesake", LONG),
        ((RESPONDER[0],), "the issuer", LONG),
        ((key_usage("key_encipherment"), SIGNS_OCSP), "the issuer", LONG),
        (
            RESPONDER,
            "the issuer",
            {"starts": datetime(2020, 1, 1, tzinfo=UTC), "ends": datetime(2021, 1, 1, tzinfo=UTC)},
        ),
        (
            RESPONDER,
            "the issuer",
            {"starts": datetime(2048, 1, 1, tzinfo=UTC), "ends": datetime(2049, 1, 1, tzinfo=UTC)},
        ),
    ],
    ids=["another authority's", "a namesake's", "without OCSPSigning", "key may not sign", "expired", "not yet valid"],
)
def test_a_responder_that_the_issuer_did_not_certify_for_it_is_not_authorised(
    certify, leaf, issuer, extensions, signed_by, dates
):
    authority = {"another authority": "Other", "a namesake": "Issuing"}.get(signed_by)
    signer = certify(authority, **LONG) if authority else issuer
    responder = certify("Responder", signer, extensions=extensions, **dates)
    assert refusal(make_ocsp(leaf, issuer, at=AT, responder=responder), leaf, issuer) == "ocsp.stranger"


def test_a_signer_not_certified_sent_or_named_is_refused(certify, leaf, issuer, responder):
    other = {"responder": certify("Other", issuer), "certificates": [responder], "key": responder.key}
    for made in (
        {"responder": certify("Below", responder, extensions=RESPONDER, **LONG)},
        {"responder": leaf},
        {"responder": responder, "send_responder": False},
        {"send_responder": False, **other},
        {"send_responder": False, "by_name": True, **other},
    ):
        assert refusal(make_ocsp(leaf, issuer, at=AT, **made), leaf, issuer) == "ocsp.stranger", made


@pytest.mark.parametrize("delegated", [True, False])
def test_a_changed_signature_is_refused(leaf, issuer, responder, delegated):
    response = make_ocsp(leaf, issuer, at=AT, responder=responder if delegated else None)
    signature = response.x509.signature
    changed = response.der.replace(signature, signature[:-1] + bytes([signature[-1] ^ 1]))
    assert refusal(parse_ocsp_response(changed), leaf, issuer) == "ocsp.signature"


def test_a_weak_signature_is_refused(leaf, issuer):
    assert refusal(make_ocsp(leaf, issuer, at=AT, algorithm=hashes.SHA224()), leaf, issuer) == "ocsp.weak-signature"


def test_a_responder_with_a_weak_certificate_is_refused(leaf, issuer, responder):
    draft, key = Draft.of(responder.certificate), ec.generate_private_key(ec.SECP256K1())
    by_hash = responder._replace(certificate=EidasCertificate.from_der(draft.sign(issuer.key, hash_name="sha1")))
    by_key = EidasCertificate.from_der(for_key(draft, key.public_key()).sign(issuer.key))
    for weak in (by_hash, responder._replace(certificate=by_key, key=key)):
        assert refusal(make_ocsp(leaf, issuer, at=AT, responder=weak), leaf, issuer) == "ocsp.weak-signature"


def test_a_nonce_is_repeated_or_the_response_is_refused(leaf, issuer):
    def responding(nonce: bytes):
        return make_ocsp(leaf, issuer, at=AT, extensions=[(x509.OCSPNonce(nonce), False)])

    assert answer(responding(b"ours"), leaf, issuer, nonce=b"ours").findings == ()
    assert refusal(responding(b"theirs"), leaf, issuer, nonce=b"ours") == "ocsp.nonce"
    assert answer(responding(b"theirs"), leaf, issuer).state is State.GOOD  # retained: nothing was asked


def test_a_missing_nonce_is_noted_or_refused_as_configured(leaf, issuer):
    response = make_ocsp(leaf, issuer, at=AT)
    assert [f.code for f in answer(response, leaf, issuer, nonce=b"ours").findings] == ["ocsp.nonce-absent"]
    assert refusal(response, leaf, issuer, nonce=b"ours", require_nonce=True) == "ocsp.nonce"


def test_an_unknown_critical_extension_is_refused_also_of_the_responder(certify, leaf, issuer):
    responder = certify("Responder", issuer, extensions=(*RESPONDER, (ODD, True)), **LONG)
    for made in ({"extensions": [(ODD, True)]}, {"responder": responder}):
        assert refusal(make_ocsp(leaf, issuer, at=AT, **made), leaf, issuer) == "ocsp.critical-extension", made
    assert answer(make_ocsp(leaf, issuer, at=AT, extensions=[(ODD, False)]), leaf, issuer)


def test_a_request_names_the_certificate_and_carries_the_nonce(leaf, issuer):
    der = make_ocsp_request(leaf.certificate, issuer=issuer.certificate, nonce=b"0123456789abcdef")
    request = asn1_ocsp.OCSPRequest.load(der)
    assert request.nonce_value.native == b"0123456789abcdef"
    (single,) = request["tbs_request"]["request_list"]
    assert single["req_cert"]["serial_number"].native == leaf.certificate.serial


def test_too_many_bytes_are_refused():
    with refused(FormatError, "ocsp.too-large"):
        parse_ocsp_response(bytes(MAX_OCSP_BYTES + 1))


@given(st.binary(max_size=300))
def test_only_format_error_escapes(raw):
    with suppress(FormatError):
        assert parse_ocsp_response(raw).status != "successful"


@pytest.fixture(scope="module")
def revoking(leaf, issuer, responder):
    nonce = [(x509.OCSPNonce(b"0123456789abcdef"), False)]
    return make_ocsp(leaf, issuer, at=AT, status=REVOKED, responder=responder, extensions=nonce).der


def test_where_a_response_is_malformed_is_reported(revoking):
    produced_at = b"\x18\x0f20"
    assert produced_at in revoking
    where = "response bytes, response, produced at: invalid value"
    with refused(FormatError, "ocsp.malformed", match=f"this is not an OCSP response: {where}"):
        parse_ocsp_response(revoking.replace(produced_at, b"\x18\x0fxx", 1))


@given(data=st.data())
def test_a_damaged_response_is_refused_or_says_the_same(revoking, leaf, issuer, data):
    damaged = bytearray(revoking)
    place = data.draw(st.integers(0, len(revoking) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    try:
        said = answer(parse_ocsp_response(bytes(damaged)), leaf, issuer)
    except (FormatError, VerificationError):
        return
    assert said.state is State.REVOKED
