"""Extensions, one by one: what each says, and what a broken one does not hide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate, ExtensionFacts, der
from tppkit.certificates.extensions import _READERS as EXTENSIONS
from tppkit.certificates.extensions import KEY_USAGES, read_extensions
from tppkit.errors import Severity

KEY_USAGE, NAMES, CONSTRAINTS, POLICIES, EKU = "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.32", "2.5.29.37"
CLIENT_AUTH = der.write_oid("1.3.6.1.5.5.7.3.2")
TRUE, FALSE = b"\x01\x01\xff", b"\x01\x01\x00"
CLIENT = (EKU, der.write_sequence(CLIENT_AUTH))


def seq(*parts: bytes) -> bytes:
    return der.write_sequence(*parts)


def extension(oid: str, value: bytes, *flag: bytes) -> bytes:
    return seq(der.write_oid(oid), *flag, der.write_element(der.OCTET_STRING, value))


def read(*extensions: bytes) -> ExtensionFacts:
    data = der.write_element(0xA3, seq(*extensions))
    return read_extensions(data, der.read_element(data, 0, len(data)))


def bits(*numbers: int) -> bytes:
    """A named bit list as DER has it: no trailing zeros."""
    size = max(numbers, default=-1) + 1
    value = sum(1 << (8 * ((size + 7) // 8) - 1 - number) for number in numbers)
    return der.write_element(der.BIT_STRING, bytes([-size % 8]) + value.to_bytes((size + 7) // 8, "big"))


@given(st.sets(st.integers(0, 8)))
def test_every_set_of_key_usages_is_read_in_bit_order(numbers):
    facts = read(extension(KEY_USAGE, bits(*numbers)))
    assert (facts.key_usage, facts.findings) == (tuple(KEY_USAGES[number] for number in sorted(numbers)), ())


def test_usages_are_named_where_they_are_known():
    facts = read(extension(EKU, seq(CLIENT_AUTH, der.write_oid("2.999.1"))))
    assert facts.extended_key_usage == ("clientAuth", "2.999.1")


def test_policies_are_read_with_and_without_qualifiers():
    facts = read(extension(POLICIES, seq(seq(der.write_oid("2.999.1"), seq()), seq(der.write_oid("2.999.2")))))
    assert facts.policies == ("2.999.1", "2.999.2")


def test_of_the_subject_names_those_of_hosts_are_read():
    names = seq(b"\x81\x03a@b", b"\x82\x01a", b"\x87\x04\x7f\x00\x00\x01", b"\x82\x01b")
    assert read(extension(NAMES, names)).dns_names == ("a", "b")


@pytest.mark.parametrize("name", [b"a.example\x00.b", b"a b", b"a\n", b"\x7f", b" ", b"", b"\xc5\xbe"])
def test_a_name_or_address_of_other_than_visible_characters_is_not_used(name):
    facts = read(extension(NAMES, seq(der.write_element(0x82, name), b"\x82\x01a")))
    assert (facts.dns_names, [f.code for f in facts.findings]) == (("a",), ["certificate.extension-malformed"])
    odd, good = der.write_element(0x86, name), der.write_element(0x86, b"http://a")
    method = der.write_oid("1.3.6.1.5.5.7.48.1")
    facts = read(extension("1.3.6.1.5.5.7.1.1", seq(seq(method, odd), seq(method, good))))
    assert facts.ocsp_urls == ("http://a",)
    (finding,) = facts.findings
    assert (finding.code, finding.severity) == ("certificate.address-malformed", Severity.WARNING)
    assert finding.message.endswith(f"not visible ASCII: {shown(name)}")  # the place follows
    point = seq(seq(der.write_element(0xA0, der.write_element(0xA0, odd, good))))
    facts = read(extension("2.5.29.31", point))
    assert (facts.crl_urls, [f.code for f in facts.findings]) == (("http://a",), ["certificate.address-malformed"])


def test_only_the_first_of_many_malformed_addresses_are_reported():
    method, odd = der.write_oid("1.3.6.1.5.5.7.48.1"), der.write_element(0x86, b" ")
    assert len(read(extension("1.3.6.1.5.5.7.1.1", seq(*[seq(method, odd)] * 100))).findings) == 16


def test_addresses_among_the_subject_names_are_read():
    facts = read(extension(NAMES, seq(b"\x87\x04\x7f\x00\x00\x01", b"\x82\x01a", b"\x87\x10" + bytes(15) + b"\x01")))
    assert (facts.ip_addresses, facts.dns_names, facts.findings) == (("127.0.0.1", "::1"), ("a",), ())


def test_key_identifiers_are_read():
    authority = seq(b"\x80\x02ab", b"\xa1\x02\x05\x00", b"\x82\x01\x07")
    facts = read(extension("2.5.29.14", b"\x04\x02cd"), extension("2.5.29.35", authority))
    assert (facts.subject_key_identifier, facts.authority_key_identifier, facts.findings) == (b"cd", b"ab", ())
    assert read(extension("2.5.29.35", seq(b"\x82\x01\x07"))).authority_key_identifier is None


def test_addresses_of_services_are_read_by_their_method():
    ocsp, issuers, other = (der.write_oid(oid) for oid in ("1.3.6.1.5.5.7.48.1", "1.3.6.1.5.5.7.48.2", "2.999.1"))
    access = seq(
        seq(issuers, b"\x86\x01i"),
        seq(ocsp, b"\x86\x01o"),
        seq(other, b"\x86\x01x"),
        seq(ocsp, b"\x82\x01d"),
        seq(ocsp, b"\x86\x01p"),
    )
    facts = read(extension("1.3.6.1.5.5.7.1.1", access))
    assert (facts.ocsp_urls, facts.ca_issuers_urls, facts.findings) == (("o", "p"), ("i",), ())


def test_addresses_of_revocation_lists_are_read_from_full_names_only():
    full = der.write_element(0xA0, der.write_element(0xA0, b"\x86\x01a", b"\x82\x01d", b"\x86\x01b"))
    relative = der.write_element(0xA0, der.write_element(0xA1, b"\x86\x01r"))
    facts = read(extension("2.5.29.31", seq(seq(full), seq(relative), seq(b"\x81\x02\x00\x80"))))
    assert (facts.crl_urls, facts.findings) == (("a", "b"), ())


def test_the_same_extension_is_read_alike_in_every_place():
    malformed = extension(KEY_USAGE, b"\x05\x00")
    first, second = (read(*before, malformed, extension(*CLIENT)) for before in ((), (extension(POLICIES, seq()),)))
    assert second.extended_key_usage == first.extended_key_usage == ("clientAuth",)
    (early,), (late,) = first.findings, second.findings
    assert late.offset == early.offset + len(extension(POLICIES, seq()))
    assert late.message.replace(str(late.offset), str(early.offset)) == early.message


def test_a_precertificate_is_reported():
    assert read(extension("1.3.6.1.4.1.11129.2.4.3", b"\x05\x00", TRUE)).is_precertificate
    assert not read(extension(*CLIENT)).is_precertificate


@pytest.mark.parametrize(("value", "is_ca"), [(seq(), False), (seq(TRUE), True), (seq(TRUE, b"\x02\x01\x00"), True)])
def test_basic_constraints_say_who_is_an_authority(value, is_ca):
    facts = read(extension(CONSTRAINTS, value))
    assert (facts.is_ca, facts.findings) == (is_ca, ())


def test_critical_extensions_are_listed_whether_known_or_not():
    facts = read(extension(*CLIENT, TRUE), extension(KEY_USAGE, bits(0)), extension("2.999.1", b"\x05\x00", TRUE))
    assert facts.critical == (EKU, "2.999.1")


def test_without_extensions_nothing_is_reported():
    assert read_extensions(b"", None) == ExtensionFacts() == read()


# The extension that is malformed, and what is still read of it.
MALFORMED = {
    "no content": (extension(KEY_USAGE, b""), {}),
    "another type": (extension(KEY_USAGE, b"\x05\x00"), {}),
    "bytes after the end": (extension(KEY_USAGE, bits(0) + b"\x00"), {}),
    "bit string without bits but unused ones": (extension(KEY_USAGE, b"\x03\x01\x01"), {}),
    "bit string with eight unused bits": (extension(KEY_USAGE, b"\x03\x02\x08\x80"), {}),
    "bit string without content": (extension(KEY_USAGE, b"\x03\x00"), {}),
    "bit string of nine bytes": (extension(KEY_USAGE, b"\x03\x09\x00" + bytes(8)), {}),
    "policy without identifier": (extension(POLICIES, seq(seq())), {}),
    "policy that is no sequence": (extension(POLICIES, seq(der.write_oid("2.999.1"))), {}),
    "host name that is not ASCII": (extension(NAMES, seq(b"\x82\x01\xe9")), {}),
    "address of three bytes": (extension(NAMES, seq(b"\x87\x03abc", b"\x82\x01a")), {"dns_names": ("a",)}),
    "key identifier that is no octet string": (extension("2.5.29.14", b"\x05\x00"), {}),
    "access description of one part": (extension("1.3.6.1.5.5.7.1.1", seq(seq(CLIENT_AUTH))), {}),
    "distribution point that is no sequence": (extension("2.5.29.31", seq(CLIENT_AUTH)), {}),
    "constraints that write their default": (extension(CONSTRAINTS, seq(FALSE)), {}),
    "constraints with another TRUE": (extension(CONSTRAINTS, seq(b"\x01\x01\x01")), {"is_ca": True}),
    "criticality that writes its default": (extension(KEY_USAGE, bits(0), FALSE), {"key_usage": ("digitalSignature",)}),
    "extension of another kind, cut off": (extension("2.5.29.18", b"\x30\x01"), {}),
    "value that is no octet string": (seq(der.write_oid(KEY_USAGE), bits(0)), {}),
    "extension without value": (seq(der.write_oid(KEY_USAGE)), {}),
    "extension with four parts": (seq(der.write_oid(KEY_USAGE), TRUE, TRUE, der.write_element(der.OCTET_STRING, bits(0))), {}),
    "extension that is no sequence": (der.write_oid(KEY_USAGE), {}),
    "identifier that is none": (seq(b"\x06\x00", der.write_element(der.OCTET_STRING, bits(0))), {}),
}  # fmt: skip


@pytest.mark.parametrize(("malformed", "facts"), MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("place", [0, 1])
def test_a_malformed_extension_is_named_and_does_not_hide_the_others(malformed, facts, place):
    others = [extension(*CLIENT)]
    found = read(*others[:place], malformed, *others[place:])
    assert found.extended_key_usage == ("clientAuth",)
    assert [finding.code for finding in found.findings] == ["certificate.extension-malformed"]
    empty = {"key_usage": (), "policies": (), "dns_names": (), "is_ca": False}
    assert {name: getattr(found, name) for name in empty} == {**empty, **facts}


def test_of_an_extension_that_appears_twice_the_first_is_read():
    facts = read(extension(KEY_USAGE, bits(0)), extension(KEY_USAGE, bits(1)))
    assert facts.key_usage == ("digitalSignature",)
    assert [finding.code for finding in facts.findings] == ["certificate.extension-malformed"]


def test_a_finding_names_the_byte_in_the_certificate():
    data = b"before" + der.write_element(0xA3, seq(extension(KEY_USAGE, b"\x05\x00")))
    (finding,) = read_extensions(data, der.read_element(data, 6, len(data))).findings
    assert finding.offset is not None
    assert data[finding.offset :] == b"\x05\x00"


@given(st.binary(max_size=60), st.sampled_from([*EXTENSIONS, "2.999.1"]))
def test_reading_any_bytes_gives_findings_and_no_error(content, oid):
    assert isinstance(read(extension(oid, content)), ExtensionFacts)
    assert isinstance(read(content), ExtensionFacts)
    assert isinstance(read_extensions(content, der.Element(0xA3, 0, 0, len(content))), ExtensionFacts)


def test_a_fault_in_the_statements_is_placed_in_the_certificate(pki):
    name = b"\x0c\x06PSP_PI"
    malformed = pki.qwac.certificate.der.replace(name, b"\x13" + name[1:])
    for _ in range(2):  # also when the extension's bytes are known already
        (finding,) = EidasCertificate.from_der(malformed).findings
        assert (finding.code, finding.offset) == ("qcstatements.string-type", malformed.index(b"\x13" + name[1:]))
