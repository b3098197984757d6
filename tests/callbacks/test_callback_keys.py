"""Public keys of the service in every form they are published in."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from calling import AT, LIVE
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.callbacks import CallbackKey, load_callback_key
from tppkit.errors import ConfigurationError, FormatError

PUBLIC = LIVE.public_key()
DER = PUBLIC.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
PEM = PUBLIC.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def refusal(source, **settings) -> str:
    with pytest.raises(ConfigurationError) as refused:
        load_callback_key(source, name="live", **settings)
    return refused.value.code


@pytest.mark.parametrize(
    "source", [PEM, DER, base64.b64encode(DER), base64.encodebytes(DER), b"a comment\n" + PEM], ids=range(5)
)
def test_pem_der_and_base64_are_read(source):
    key = load_callback_key(source, name="live")
    assert key.public_key.public_numbers() == PUBLIC.public_numbers()


def test_a_file_is_read(tmp_path):
    path = tmp_path / "live.pub"
    path.write_bytes(PEM)
    assert load_callback_key(path, name="live").name == "live"
    with refused(FormatError, "file.unreadable"):
        load_callback_key(tmp_path / "absent", name="live")


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP256K1()), ec.generate_private_key(ec.BrainpoolP256R1()),
        rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate(), dsa.generate_private_key(2048),
    ],
    ids=["P-384", "secp256k1", "brainpool", "rsa", "ed25519", "dsa"],
)  # fmt: skip
def test_other_curves_and_kinds_are_refused(key):
    assert (
        refusal(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)) == "callback-key.curve"
    )


@pytest.mark.parametrize(
    "source", [b"", b"\x30", DER[:-1], DER + b"\x00", PEM[:60], b"hello", b"\xff" * 40, PEM.replace(b"M", b"!")]
)
def test_what_is_not_a_key_is_refused(source):
    assert refusal(source) == "callback-key.unreadable"


@pytest.mark.parametrize(
    ("source", "fault"), [(PEM.replace(b"\n", b"\\n"), "backslash and n"), (PEM.decode().encode("utf-16"), "UTF-16")]
)
def test_a_key_that_a_tool_has_damaged_is_named_as_such(source, fault):
    with pytest.raises(ConfigurationError, match=fault):
        load_callback_key(source, name="live")


def test_a_private_key_is_refused_and_not_shown():
    pem = LIVE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert refusal(pem) == "callback-key.unreadable"
    assert refusal(LIVE.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())) == "callback-key.unreadable"


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (LIVE, "callback-key.unreadable"), (PEM, "callback-key.unreadable"), (None, "callback-key.unreadable"),
        (rsa.generate_private_key(65537, 2048), "callback-key.unreadable"),
        (rsa.generate_private_key(65537, 2048).public_key(), "callback-key.curve"),
        (ed25519.Ed25519PrivateKey.generate().public_key(), "callback-key.curve"),
        (ec.generate_private_key(ec.SECP384R1()).public_key(), "callback-key.curve"),
    ],
)  # fmt: skip
def test_what_is_not_a_public_key_on_the_curve_is_not_a_key_of_a_receiver(key, code):
    with refused(ConfigurationError, code):
        CallbackKey("live", key)


def test_a_point_off_the_curve_is_refused():
    assert refusal(DER[:-1] + bytes([DER[-1] ^ 1])) == "callback-key.unreadable"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"not_before": AT, "not_after": AT - timedelta(1)}, "callback-key.setting"),
        ({"not_before": datetime(2026, 1, 1)}, "time.naive"),
    ],
)
def test_a_validity_that_cannot_be_is_refused(settings, code):
    assert refusal(PEM, **settings) == code


@pytest.mark.parametrize("name", ["", "a\nb"])
def test_a_key_has_a_printable_name(name):
    with refused(ConfigurationError, "callback-key.setting"):
        CallbackKey(name, PUBLIC)


@given(
    st.binary()
    | st.binary().map(lambda rest: b"-----BEGIN PUBLIC KEY-----\n" + rest)
    | st.binary().map(lambda x: DER[:30] + x)
)
def test_only_configuration_errors_escape(source):
    with suppress(ConfigurationError):
        load_callback_key(source, name="live")
