"""The signature of a callback: its bytes have one reading, its keys come in every published form, and it is made as the service does."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from calling import ACCESS_URL, AT, LIVE, LOGIN_URL, ORIGIN, PAYMENT_URL, RECEIVER, target_of
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.callbacks import CallbackKey, CallbackRejected, RequestIds, load_callback_key
from tppkit.callbacks.signature import make_signature, require_body, signed_bytes
from tppkit.callbacks.verify import require_address
from tppkit.errors import ConfigurationError, FormatError
from tppkit.message import Message

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALIASES = (f"{ORIGIN}/a%2Fb/%C5%BEalias/", f"{ORIGIN}/a/b/žalias/", f"{ORIGIN}/a%2fb/%c5%bealias/")
WIDE = RequestIds(further="{}.~!", max_length=80)


def allowed(request_id: str, method: str, url: str, body: bytes) -> bool:
    """Whether the rules take this reading of signed bytes."""
    callback = Message(method, target_of(url), (), body)
    try:
        WIDE.require(request_id)
        match = require_address(callback, RECEIVER)
        require_body(method, body)
    except CallbackRejected:
        return False
    return url.encode() in match.urls


def readings(data: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    """Every way to cut the bytes in four that the rules take: all cuts are tried, nothing is parsed."""
    for begin in range(len(data)):
        for method in ("GET", "POST"):
            if data.startswith(method.encode(), begin):
                start = begin + len(method)
                for end in range(start, len(data) + 1):
                    try:
                        cut = data[:begin].decode(), method, data[start:end].decode(), data[end:]
                    except UnicodeError:
                        continue
                    # Cheap conditions first, the rules decide.
                    if cut[2].startswith(ORIGIN) and cut[3][:1] in (b"", b"{") and allowed(*cut):
                        yield cut


def made_up(chance: random.Random) -> tuple[str, str, str, bytes]:
    """A callback that the rules take, made to be misread."""
    request_id = "".join(
        chance.choice((chance.choice(LETTERS + "-_{}.~!"), "GET", "POST", "https", "POSThttps"))
        for _ in range(chance.randint(1, 8))
    )
    token = "".join(chance.choices(LETTERS, k=chance.randint(20, 40)))
    if chance.random() < 0.2:
        token = chance.choice(("GET", "POST", "https")) + token[5:28] + "POST"
    method = chance.choice(("GET", "POST"))
    post_only = (ACCESS_URL, f"{ORIGIN}/cb/{token}")
    url = chance.choice((f"{ORIGIN}/login/{token}", *ALIASES, *(post_only if method == "POST" else ())))
    inner = chance.choice(("", f'"a":"GET{LOGIN_URL}"', f"POST{PAYMENT_URL}{{", f"{{{ACCESS_URL}", "x"))
    return request_id[:80], method, url, b"" if method == "GET" else f"{{{inner}}}".encode()


@pytest.mark.slow
def test_20_000_callbacks_are_read_back_as_they_were_and_in_no_other_way():
    chance = random.Random(6)
    for _ in range(20_000):
        callback = made_up(chance)
        assert list(readings(signed_bytes(*callback))) == [callback]


def test_without_the_rules_the_same_bytes_have_other_readings():
    # What the search above would find if requestids could have colons: it does look at every cut.
    data = signed_bytes("r1", "GET", f"https://stranger.example/x?POST{ACCESS_URL}", b'{"a":1}')
    position = data.index(b"POST")
    assert data == signed_bytes(data[:position].decode(), "POST", ACCESS_URL, b'{"a":1}')
    assert list(readings(data)) == []


def test_a_callback_shows_no_token_of_its_target_and_no_body():
    callback = Message("POST", "/cb/TOKEN", (("requestid", "r1"),), b'{"accessToken":"secret"}')
    assert repr(callback) == callback.__sentry_repr__() == "Message('POST', 1 headers, 24 bytes)"


def test_requestids_have_a_safe_alphabet_and_a_bounded_length():
    for settings in (
        *({"further": further} for further in (":", "/", ",", " ", "é", "\n", "a:", "\x7f")),
        *({"max_length": length} for length in (0, -1, 256)),
    ):
        with refused(ConfigurationError, "callback.request-id-setting"):
            RequestIds(**settings)
    assert [RequestIds(max_length=3).allow(one) for one in ("abc", "abcd", "")] == [True, False, False]


def test_a_request_is_written_as_it_came_and_with_nothing_of_its_own():
    received = Message("POST", "/\xc5\xbe", (("X", "a"), ("x", "\xff")), b"{\r\n}")
    assert received.to_wire() == b"POST /\xc5\xbe HTTP/1.1\r\nX: a\r\nx: \xff\r\n\r\n{\r\n}"


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
    "source",
    [
        b"", b"\x30", DER[:-1], DER + b"\x00", PEM[:60], b"hello", b"\xff" * 40, PEM.replace(b"M", b"!"),
        DER[:-1] + bytes([DER[-1] ^ 1]),  # a point off the curve
        LIVE.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    ],
)  # fmt: skip
def test_what_is_not_a_public_key_is_refused(source):
    assert refusal(source) == "callback-key.unreadable"


def test_a_private_key_is_named_as_such():
    pem = LIVE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with refused(ConfigurationError, "callback-key.unreadable", match="is a private key"):
        load_callback_key(pem, name="live")


@pytest.mark.parametrize(
    ("source", "fault"), [(PEM.replace(b"\n", b"\\n"), "backslash and n"), (PEM.decode().encode("utf-16"), "UTF-16")]
)
def test_a_key_that_a_tool_has_damaged_is_named_as_such(source, fault):
    with pytest.raises(ConfigurationError, match=fault):
        load_callback_key(source, name="live")


def test_a_key_has_a_printable_name_and_a_validity_that_can_be():
    for name in ("", "a\nb"):
        with refused(ConfigurationError, "callback-key.setting"):
            CallbackKey(name, PUBLIC)
    assert refusal(PEM, not_before=AT, not_after=AT - timedelta(1)) == "callback-key.setting"
    assert refusal(PEM, not_before=datetime(2026, 1, 1)) == "time.naive"
    begins = CallbackKey("live", PUBLIC, not_before=AT)  # and does not end
    assert (begins.counts_at(AT), begins.counts_at(AT - timedelta(1))) == (True, False)


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


@given(
    st.binary()
    | st.binary().map(lambda rest: b"-----BEGIN PUBLIC KEY-----\n" + rest)
    | st.binary().map(lambda x: DER[:30] + x)
)
def test_only_configuration_errors_escape(source):
    with suppress(ConfigurationError):
        load_callback_key(source, name="live")


def test_a_deterministic_signature_is_the_same_again():
    one, two = (make_signature(LIVE, b"data", deterministic=True) for _ in range(2))
    assert one == two
    assert make_signature(LIVE, b"data") != make_signature(LIVE, b"data")
