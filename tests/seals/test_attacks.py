"""Attacks on HTTP signatures that were found in the field, and the tests that make them.

`ATTACKS` numbers them as the list does that they were taken from. Those on a client or a server are tests of theirs.
"""

from __future__ import annotations

import ast
import hashlib
import hmac
import re
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sealing import (
    AT,
    COVERED,
    REQUEST,
    REQUEST_ID,
    TARGET,
    TEMPLATE,
    fresh_policy,
    header,
    policy_of,
    request_for,
    seal_by_hand,
    seal_of,
    verdict,
    with_value,
    without,
)

from refusals import refused
from tppkit._encoding import decode_base64, encode_base64
from tppkit.errors import FormatError
from tppkit.httpsig import make_digest
from tppkit.message import Message
from tppkit.seals import PROFILES, Seal, SealPolicy, sign_request, verify_request
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Pki

WEB, CLIENT = "web/test_seal.py::", "client/test_seal_auth.py::"
# By number: what the attack is, and where it is made; tests of this file by their number, others by name.
ATTACKS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    1: ("algorithm confusion, HMAC with the public key", ()),
    2: ("names of headers not covered by the signature", ()),
    3: ("digest not covered or not compared", ()),
    4: ("body removed, digest of the real one kept", ()),
    5: ("query missing or path decoded in the target", (f"{WEB}test_a_server_that_decodes_the_path_gets_every_request_rejected",)),
    6: ("signed header doubled, first and last differ", ()),
    7: ("parameters doubled", (
        "httpsig/test_cavage.py::test_a_parameter_that_appears_twice_is_refused",
        "httpsig/test_rfc9421.py::test_a_signature_input_that_can_mean_two_things_is_refused",
    )),
    8: ("weak hash that the sender chose", ("seals/test_verify.py::test_a_digest_under_a_good_signature_is_judged_for_itself",)),
    9: ("lenient base64, mirrored ECDSA signature, DER that is not canonical", (
        "seals/test_verify.py::test_signature_and_certificate_are_read_as_canonical_base64_only",
        "httpsig/test_algorithms.py::test_ecdsa_takes_der_only_and_no_other_spelling_of_it",
    )),
    10: ("keyId fetched as an address", ()),
    11: ("line breaks in signed values", ("seals/test_key_id.py::test_a_seal_of_an_issuer_with_a_line_break_forges_no_header",)),
    12: ("certificate exchanged", ("seals/test_profiles.py::test_under_a_key_id_that_is_known_no_other_certificate_is_accepted",)),
    13: ("missing signed header ignored, or a demand that never refuses", ()),
    14: ("line ends written anew", (f"{WEB}test_a_body_in_any_pieces_is_the_same_body",)),
    15: ("forms of times and clocks that are apart", (
        "httpsig/test_http_date.py::test_another_form_is_refused",
        "seals/test_profile_times.py::test_a_seal_that_a_time_identifies_is_not_accepted_again_days_later",
    )),
    16: ("seal sent along a redirect", (
        f"{CLIENT}test_a_seal_never_follows_a_redirect", f"{CLIENT}test_a_request_to_another_origin_is_not_sealed",
    )),
    17: ("request id changed on a retry, or used for another body", (
        f"{CLIENT}test_a_request_that_is_sent_again_has_the_same_id_and_body",
        f"{CLIENT}test_the_same_id_with_another_request_is_not_sent",
    )),
    18: ("certificate header spoofed past a proxy", (
        f"{WEB}test_a_spoofed_certificate_header_is_ignored_and_logged",
        "web/test_proxies.py::test_a_spoofed_header_beside_a_real_connection_is_ignored_and_reported",
        "web/test_proxies.py::test_of_a_trusted_proxy_only_the_header_that_it_overwrites_counts",
    )),
    19: ("several values joined, white space at the ends", (
        "httpsig/test_message.py::test_values_of_a_name_come_in_wire_order_whatever_the_case",
    )),
    20: ("what hs2019 means", ()),
}  # fmt: skip
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def names_of_tests(file: Path) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("number", ATTACKS)
def test_every_attack_of_the_list_has_its_tests(number):
    elsewhere = ATTACKS[number][1]
    assert elsewhere or [name for name in names_of_tests(Path(__file__)) if name.startswith(f"test_{number}_")]
    for place in elsewhere:
        file, _, name = place.partition("::")
        assert name in names_of_tests(Path(__file__).parents[1] / file), place


@pytest.mark.shared
def test_the_list_of_attacks_is_whole(shared_data):
    reference = shared_data.parent / "reference" / "http-signatures.md"
    if not reference.exists():
        pytest.skip("needs the folder shared/reference beside the checkout")
    table = reference.read_text(encoding="utf-8").partition("attacks (sources)")[2]
    assert sorted(ATTACKS) == [int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]


@pytest.fixture(params=["unknown", "known"])
def policy(request: pytest.FixtureRequest, pki: Pki, sealed: Message) -> SealPolicy:
    """A policy that sees its first request, and one that has verified the provider's seal before."""
    policy = fresh_policy(pki)
    if request.param == "known":
        assert verdict(sealed, policy) == "holds"
    return policy


@pytest.mark.parametrize("algorithm", ["hmac-sha256", "hmac-sha512", "rsa-sha256", "hs2019", "none", ""])
@pytest.mark.parametrize("secret", ["PEM", "DER"])
def test_1_the_public_key_as_the_secret_of_an_hmac(secret, algorithm, rsa_pki):
    form = {"PEM": Encoding.PEM, "DER": Encoding.DER}[secret]
    key = rsa_pki.qseal.key.public_key().public_bytes(form, PublicFormat.SubjectPublicKeyInfo)
    forged = seal_by_hand(
        REQUEST, rsa_pki.qseal, algorithm=algorithm, sign=lambda data: hmac.digest(key, data, hashlib.sha256)
    )
    expected = "signature.invalid" if algorithm == "rsa-sha256" else "signature.algorithm"
    assert verdict(forged, fresh_policy(rsa_pki)) == expected


def test_2_the_names_of_covered_headers_are_part_of_what_is_signed(pki):
    request = REQUEST.with_headers(("TPP-Redirect-URI", "https://tpp.example"), ("PSU-ID", "https://tpp.example"))
    sealed = seal_by_hand(request, pki.qseal, covered=(*COVERED, "tpp-redirect-uri"))
    other = header(sealed, "Signature").replace("tpp-redirect-uri", "psu-id")
    assert verdict(sealed, fresh_policy(pki)) == "holds"
    assert verdict(with_value(sealed, "Signature", other), fresh_policy(pki)) == "signature.invalid"


def test_3_a_digest_that_is_not_covered_or_not_compared(pki, policy, sealed):
    forged = seal_by_hand(REQUEST, pki.qseal, covered=("x-request-id", "(request-target)"))
    assert verdict(forged, policy) == "signature.uncovered"
    evil = without(forged, "Digest")._replace(body=b"evil").with_headers(("Digest", make_digest(b"evil")))
    assert verdict(evil, policy) == "signature.uncovered"
    assert verdict(sealed._replace(body=b"evil"), policy) == "digest.mismatch"
    forged = with_value(sealed._replace(body=b"evil"), "Digest", make_digest(b"evil"))
    assert verdict(forged, policy) == "signature.invalid"


def test_4_the_body_is_removed_alone_or_with_its_digest(sealed, policy):
    assert verdict(sealed._replace(body=b""), policy) == "digest.mismatch"
    assert verdict(without(sealed._replace(body=b""), "Digest"), policy) == "signature.missing"
    empty = with_value(sealed._replace(body=b""), "Digest", make_digest(b""))
    assert verdict(empty, policy) == "signature.invalid"


@pytest.mark.parametrize(
    "target",
    [
        TARGET.partition("?")[0], TARGET + "&x=1", TARGET.replace("%2F", "/"), TARGET.replace("%2F", "%2f"),
        "https://bank.example" + TARGET, TARGET.replace("/psd2/v1", ""), TARGET + "#fragment", TARGET + "?", "/" + TARGET,
    ],
    ids=["no query", "longer query", "decoded", "lower escape", "whole address", "no base path", "fragment", "?", "//"],
)  # fmt: skip
def test_5_the_target_in_another_spelling(target, sealed, policy):
    assert verdict(sealed._replace(target=target), policy) == "signature.invalid"


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("name", ["X-Request-ID", "Digest", "Signature", "TPP-Signature-Certificate"])
def test_6_a_covered_header_doubled_in_front_or_behind(name, first, sealed, policy):
    evil = (name.lower(), "evil")
    headers = (evil, *sealed.headers) if first else (*sealed.headers, evil)
    assert verdict(sealed._replace(headers=headers), policy) == "header.duplicate"


def test_6_a_list_header_doubled_is_signed_in_its_order(pki):
    request = REQUEST.with_headers(("PSU-Accept", "a"), ("PSU-Accept", "b"))
    sealed = seal_by_hand(request, pki.qseal, covered=(*COVERED, "psu-accept"))
    assert verdict(sealed, fresh_policy(pki)) == "holds"
    swapped = [*sealed.headers]
    places = [place for place, (name, _) in enumerate(swapped) if name == "PSU-Accept"]
    swapped[places[0]], swapped[places[1]] = swapped[places[1]], swapped[places[0]]
    assert verdict(sealed._replace(headers=tuple(swapped)), fresh_policy(pki)) == "signature.invalid"
    for dropped in places:
        fewer = [h for place, h in enumerate(sealed.headers) if place != dropped]
        assert verdict(sealed._replace(headers=tuple(fewer)), fresh_policy(pki)) == "signature.invalid"


@pytest.mark.parametrize("algorithm", ["rsa-sha1", "rsa-md5", "RSA-SHA1", "rsa-sha256"])
def test_8_a_weak_hash_that_the_sender_chose(algorithm, rsa_pki):
    key = rsa_pki.qseal.key
    forged = seal_by_hand(
        REQUEST, rsa_pki.qseal, algorithm=algorithm, sign=lambda data: key.sign(data, padding.PKCS1v15(), SHA1())
    )
    assert verdict(forged, fresh_policy(rsa_pki)) == (
        "signature.invalid" if algorithm == "rsa-sha256" else "signature.algorithm"
    )


def test_9_another_spelling_of_der_is_refused_and_the_mirrored_signature_proves_the_same_and_no_more(
    pki, policy, sealed
):
    key = pki.qseal.key

    def padded(data: bytes) -> bytes:
        der = key.sign(data, ec.ECDSA(SHA256()))
        return bytes([0x30, der[1] + 1, 0x02, der[3] + 1, 0x00]) + der[4:]

    assert verdict(seal_by_hand(REQUEST, pki.qseal, sign=padded), policy) == "signature.invalid"
    # Every ECDSA signature (r, s) has a mirrored form (r, n - s), so signature bytes name no request: the request's id does.
    head, mark, last = header(sealed, "Signature").rpartition('signature="')
    r, s = decode_dss_signature(decode_base64(last[:-1], what="signature"))
    mirrored = encode_base64(encode_dss_signature(r, P256_ORDER - s))
    forged = with_value(sealed, "Signature", f'{head}{mark}{mirrored}"')
    verified = verify_request(forged, qwac=None, at=AT, policy=policy)
    assert (verified.request_id, verified.body) == (REQUEST_ID, REQUEST.body)
    assert not hasattr(verified, "signature")


def test_10_an_address_as_key_id_is_not_fetched(rsa_pki):
    row = PROFILES["stet"]
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.2)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/certificate.pem"
        key_of = Seal(rsa_pki.qseal.certificate, seal_of(row, rsa_pki.qseal).signer, profile=row, key_id=url)
        sealed = sign_request(request_for(row), seal=key_of)
        assert verdict(sealed, policy_of(row, rsa_pki)) == "seal.unknown-certificate"
        with pytest.raises(TimeoutError):
            trap.accept()


@pytest.mark.parametrize("control", ["\n", "\r\n", "\r", "\x00", "\n ", "\x1b", "\x7f", "Ā"])
def test_11_a_line_break_in_a_value_is_neither_signed_nor_verified_nor_mistaken_for_another_field(control, pki, seal):
    evil = with_value(REQUEST, "X-Request-ID", f"{REQUEST_ID}{control}x-evil: 1")
    with refused(FormatError, "header.control-character"):
        sign_request(evil, seal=seal)
    assert verdict(seal_by_hand(evil, pki.qseal), fresh_policy(pki)) == "header.control-character"
    # "x-a: 1\nx-b: 2" could be one field with a line break or two: the same signature must not fit both.
    request = REQUEST.with_headers(("X-A", "1"), ("X-B", "2"))
    sealed = seal_by_hand(request, pki.qseal, covered=(*COVERED, "x-a", "x-b"))
    assert verdict(sealed, fresh_policy(pki)) == "holds"
    value = header(sealed, "Signature").replace(" x-a x-b", " x-a")
    merged = with_value(with_value(without(sealed, "X-B"), "X-A", "1\nx-b: 2"), "Signature", value)
    assert verdict(merged, fresh_policy(pki)) == "header.control-character"


def test_12_the_certificate_exchanged_alone_or_with_digest_and_signature(pki, other_qseal, policy, sealed):
    forged = seal_by_hand(REQUEST._replace(body=b"evil"), other_qseal)
    assert verdict(forged, policy, qwac=pki.qwac.certificate) == "seal.other-organisation"
    forged = with_value(sealed, "TPP-Signature-Certificate", encode_base64(other_qseal.certificate.der))
    assert verdict(forged, policy) == "key-id.mismatch"


def test_13_a_covered_header_that_is_not_there_ends_nothing_early(pki, policy):
    # A verifier that stops at the first missing header compares a shorter string than it believes.
    for missing in ("psu-id", "tpp-redirect-uri"):

        def sign_without(data: bytes, missing: str = missing) -> bytes:
            return pki.qseal.key.sign(data.partition(f"\n{missing}".encode())[0], ec.ECDSA(SHA256()))

        for covered in ((*COVERED, missing), (missing, *COVERED), ("digest", missing, *COVERED[1:])):
            forged = seal_by_hand(REQUEST, pki.qseal, covered=covered, sign=sign_without)
            assert verdict(forged, policy) == "signature.header-absent"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"covered": ("digest", "x-request-id", "(request-target)", "psu-id")}, "signature.uncovered"),
        ({"covered_if_present": ("content-type",)}, "signature.uncovered"),
        ({"covered": ("digest", "x-request-id"), "only_these": True}, "signature.other-coverage"),
        ({"algorithms": (("ecdsa-sha384", "ecdsa-sha384"),)}, "profile.key"),
        ({"algorithms": (("hs2019", "ecdsa-sha256"),)}, "signature.algorithm"),
        ({"certificate_header": "TPP-Signing-Certificate"}, "signature.missing"),
        ({"carrier": "Authorization"}, "signature.missing"),
        ({"certificate_header": None}, "seal.unknown-certificate"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else value,
)
def test_13_every_demand_of_a_profile_refuses_something(change, code, sealed, pki):
    assert verdict(sealed, policy_of(PSD2_V1, pki)) == "holds"
    assert verdict(sealed, policy_of(replace(PSD2_V1, **change), pki)) == code


@pytest.mark.parametrize(
    "body", [b'{\r\n"a": 1\r\n}', b'{\n"a": 1\n}\n', b"\xef\xbb\xbf{}", b"\r", '"é"'.encode("latin-1")]
)
def test_14_a_body_whose_line_ends_or_characters_were_rewritten(body, pki, seal):
    sealed, policy = sign_request(REQUEST._replace(body=body), seal=seal), fresh_policy(pki)
    verified = verify_request(sealed, qwac=None, at=AT, policy=policy)
    assert verified.body == body
    text = body.decode("latin-1")
    anew = ["\n".join(text.splitlines()), "\r\n".join(text.splitlines()), text.strip(), text + "\n"]
    others = {one.encode("latin-1") for one in anew} | {text.encode(), body.removeprefix(b"\xef\xbb\xbf")}
    for other in others - {body}:
        assert verdict(sealed._replace(body=other), policy) == "digest.mismatch"


@pytest.mark.parametrize(
    "date", ["Mon, 1 Jun 2026 12:00:00 GMT", "2026-06-01T12:00:00Z", "1780315200", "Mon, 01 Jun 2026 14:00:00 +0200"]
)
def test_15_a_date_that_readers_take_differently(date, rsa_pki):
    row = PROFILES["rabobank"]
    sealed = sign_request(with_value(request_for(row), "Date", date), seal=seal_of(row, rsa_pki.qseal))
    assert verdict(sealed, policy_of(row, rsa_pki)) == "header.date"


@pytest.mark.parametrize(
    ("value", "signed"),
    [(" a ", b"a"), ("\ta\t", b"a"), ("", b""), ("  ", b""), ("a  b", b"a  b"), ("a,b", b"a,b"), ("a , b", b"a , b")],
)
def test_19_white_space_and_empty_values_are_signed_in_one_way(value, signed, pki):
    sealed = seal_by_hand(REQUEST.with_headers(("PSU-ID", value)), pki.qseal, covered=(*COVERED, "psu-id"))
    verified = verify_request(sealed, qwac=None, at=AT, policy=fresh_policy(pki))
    assert verified.signing_string.endswith(b"\npsu-id: " + signed)


def test_20_hs2019_has_no_meaning_but_the_profiles(rsa_pki):
    meanings = [(("hs2019", name),) for name in ("rsa-sha256", "rsa-sha512", "rsa-pss-sha256", "rsa-pss-sha512")]
    rows = [replace(PSD2_V1, algorithms=meaning) for meaning in meanings]
    for ours in rows:
        sealed = sign_request(REQUEST, seal=seal_of(ours, rsa_pki.qseal))
        for theirs in rows:
            expected = "holds" if ours is theirs else "signature.invalid"
            assert verdict(sealed, policy_of(theirs, rsa_pki)) == expected
        assert verdict(sealed, fresh_policy(rsa_pki)) == "signature.algorithm"


def test_a_quoted_text_that_looks_like_a_signature_is_not_one(pki, sealed, policy):
    # The remembered text ends before `,signature="`; another parameter may hold just that.
    value = header(sealed, "Signature")
    head, _, last = value.rpartition(',signature="')
    for forged in (
        f"{head},x=',signature=\"{last}",
        f'{head},signature="{last},signature="{last}',
        f'x="{head}",signature="{last}',
    ):
        assert verdict(with_value(sealed, "Signature", forged), policy) != "holds"
    last_but_one = TEMPLATE.replace(',signature="{signature}"', ',signature="{signature}",note=",signature="')
    for template in (f'note=",signature=",{TEMPLATE}', last_but_one):
        noted = seal_by_hand(REQUEST, pki.qseal, template=template)
        assert [verdict(noted, policy), verdict(noted, policy)] == ["holds", "holds"]
        assert verdict(with_value(noted, "X-Request-ID", "another"), policy) == "signature.invalid"
