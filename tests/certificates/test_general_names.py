"""General names and the values of extensions, compared with another reader of the same bytes."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.certificates import der
from tppkit.certificates.general_names import GeneralName, read_general_name, read_general_names
from tppkit.errors import FormatError
from tppkit.testpki.certificate import Draft

NAMES: list[tuple[x509.GeneralName, GeneralName]] = [
    (x509.DNSName("a.example"), GeneralName("dNSName", "a.example")),
    (x509.RFC822Name("me@a.example"), GeneralName("rfc822Name", "me@a.example")),
    (
        x509.UniformResourceIdentifier("https://a.example/"),
        GeneralName("uniformResourceIdentifier", "https://a.example/"),
    ),
    (x509.IPAddress(ipaddress.ip_address("192.0.2.1")), GeneralName("iPAddress", ipaddress.ip_address("192.0.2.1"))),
    (
        x509.IPAddress(ipaddress.ip_address("2001:db8::1")),
        GeneralName("iPAddress", ipaddress.ip_address("2001:db8::1")),
    ),
    (x509.RegisteredID(x509.ObjectIdentifier("2.999.1")), GeneralName("registeredID", b"\x88\x37\x01")),
]


def base_of(encoded: bytes) -> GeneralName:
    return read_general_name(encoded, der.read_element(encoded, 0, len(encoded)), is_base=True)


@pytest.mark.parametrize(("made", "read"), NAMES, ids=lambda name: getattr(name, "form", ""))
def test_each_form_of_name_is_read(made, read):
    assert read_general_names(x509.SubjectAlternativeName([made]).public_bytes()) == (read,)


def test_a_directory_name_is_read_in_any_script():
    attribute = der.write_sequence(der.write_oid("2.5.4.3"), der.write_text("Ω" * 200))
    name = der.write_sequence(der.write_element(der.SET, attribute))
    (read,) = read_general_names(der.write_sequence(der.write_element(0xA4, name)))
    assert (read.form, str(read.value)) == ("directoryName", f"CN={'Ω' * 200}")


@pytest.mark.parametrize("network", ["192.0.2.0/24", "0.0.0.0/0", "192.0.2.7/32", "2001:db8::/32"])
def test_the_base_of_a_constraint_is_a_network(network):
    base = ipaddress.ip_network(network)
    encoded = der.write_element(0x87, base.network_address.packed, base.netmask.packed)
    assert base_of(encoded) == GeneralName("iPAddress", base)


@pytest.mark.parametrize(
    "content", ["", "c0000201", "c00002", "c0000200ff00ff00", "c0000201ffffff00", "c0000200ffffff", "00" * 20],
)  # fmt: skip
def test_a_base_that_is_not_a_network_is_malformed(content):
    with refused(FormatError, "der.malformed"):
        base_of(der.write_element(0x87, bytes.fromhex(content)))


@pytest.mark.parametrize("encoded", ["8701ff", "8203c3a920", "a400", "a4043000", "8900", "a4023100", "0c0161"])
def test_what_is_not_a_name_is_malformed(encoded):
    raw = bytes.fromhex(encoded)
    if encoded == "a4043000":  # longer than it is
        raw = der.write_element(0xA4, b"\x30\x00\x30\x00")
    with pytest.raises(FormatError):
        read_general_names(der.write_sequence(raw))


@given(st.binary(max_size=60))
def test_only_format_errors_escape(raw):
    for data in (raw, der.write_sequence(raw)):
        with suppress(FormatError):
            read_general_names(data)
    with suppress(FormatError):
        base_of(raw)


def test_values_of_extensions_are_those_that_another_reader_finds(pki):
    for issued in pki.issued:
        expected = {extension.oid: extension.value for extension in Draft.of(issued.certificate).extensions}
        assert issued.certificate.extension_values == expected


@given(st.data())
def test_values_of_a_malformed_certificate_are_read_as_far_as_they_go(pki, data):
    whole = pki.qwac.certificate
    extension = data.draw(st.sampled_from(sorted(whole.extension_values)))
    at = whole.der.index(whole.extension_values[extension])
    broken = bytearray(whole.der)
    broken[at] ^= 0xFF
    try:
        read = type(whole).from_der(bytes(broken))
    except FormatError:
        return
    assert set(read.extension_values) <= set(whole.extension_values)
