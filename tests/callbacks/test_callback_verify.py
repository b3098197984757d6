"""What is proven about a callback that holds."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from calling import (
    ACCESS,
    ACCESS_URL,
    ADDRESSES,
    AT,
    LIVE,
    LIVE_KEY,
    LOGIN,
    LOGIN_URL,
    ORIGIN,
    PAYMENT_URL,
    RECEIVER,
    REQUEST_ID,
    TEST,
    TEST_KEY,
    TRANSACTION,
    UUID,
    header,
    received,
    refusal,
    with_headers,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from refusals import refused
from tppkit.callbacks import CallbackAddress, CallbackKey, CallbackKind, CallbackReceiver, RequestIds, verify_callback
from tppkit.callbacks.signature import signed_bytes
from tppkit.callbacks.verify import P256_ORDER
from tppkit.errors import ConfigurationError
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, Transaction

ALIAS = f"{ORIGIN}/a%2Fb/%C5%BEalias/"
ALIAS_DECODED = f"{ORIGIN}/a/b/žalias/"


def test_an_access_callback_shows_who_signed_what():
    verified = verify_callback(received(), at=AT, receiver=RECEIVER)
    assert verified.request_id == REQUEST_ID
    assert (verified.method, verified.url, verified.body) == ("POST", ACCESS_URL, ACCESS)
    assert (verified.key_name, verified.received_at, verified.token) == ("live", AT, "")
    assert verified.address is ADDRESSES[0]
    assert isinstance(verified.event, AccessGranted)
    assert verified.event.token == "abcdefghijklmnopqrstuvwxyz"


def test_a_payment_callback_carries_its_transaction_and_the_uuid_of_the_request():
    verified = verify_callback(received(PAYMENT_URL, TRANSACTION), at=AT, receiver=RECEIVER)
    assert isinstance(verified.event, Transaction)
    assert (verified.event.id, verified.event.ver, verified.token) == ("T-1", 3, UUID)


def test_a_login_is_first_a_get_without_event_and_then_a_post_with_the_customer():
    asked = verify_callback(received(LOGIN_URL, b"", method="GET"), at=AT, receiver=RECEIVER)
    confirmed = verify_callback(received(LOGIN_URL, LOGIN), at=AT, receiver=RECEIVER)
    assert asked.event is None
    assert isinstance(confirmed.event, LoginConfirmed)
    assert confirmed.event.id == 7


def test_an_address_of_another_kind_takes_any_object_and_reads_no_event():
    assert verify_callback(received(ALIAS, b'{"any":1}'), at=AT, receiver=RECEIVER).event is None
    assert refusal(received(ALIAS, b'{"any":1')) == "json.malformed"


@pytest.mark.parametrize("signed", [ALIAS, ALIAS_DECODED])
@pytest.mark.parametrize(
    "target",
    [
        "/a%2Fb/%C5%BEalias/",
        "/a%2fb/%c5%bealias/",
        "/a/b/žalias/".encode().decode("latin-1"),
        "https://tpp.example/a%2Fb/%C5%BEalias/",
    ],
)
def test_the_url_may_be_signed_as_configured_or_decoded(signed, target):
    callback = received(signed, b"{}", target=target)
    assert verify_callback(callback, at=AT, receiver=RECEIVER).url == signed


def test_the_url_may_be_signed_as_it_was_registered():
    # Neither the spelling of the wire nor the decoded one: letters in UTF-8, and a slash that is none.
    registered = f"{ORIGIN}/a%2Fb/žalias/{{token}}"
    receiver = CallbackReceiver([CallbackAddress(registered, CallbackKind.PAYMENT)], keys=[LIVE_KEY])
    signed = registered.replace("{token}", UUID)
    callback = received(signed, TRANSACTION, target=f"/a%2Fb/%C5%BEalias/{UUID}")
    assert verify_callback(callback, at=AT, receiver=receiver).url == signed


def test_the_spelling_that_was_received_is_tried():
    callback = received(f"{ORIGIN}/a%2fb/%c5%bealias/", b"{}")
    assert verify_callback(callback, at=AT, receiver=RECEIVER).url == f"{ORIGIN}/a%2fb/%c5%bealias/"


def test_an_absolute_target_is_the_same_address():
    callback = received(PAYMENT_URL, TRANSACTION, target=PAYMENT_URL)
    assert verify_callback(callback, at=AT, receiver=RECEIVER).token == UUID


def test_the_host_header_decides_nothing():
    forwarded = received()._replace(headers=(*received().headers, ("X-Forwarded-Host", "stranger.example")))
    assert verify_callback(forwarded, at=AT, receiver=RECEIVER).url == ACCESS_URL
    assert refusal(with_headers(received(signed_url="https://stranger.example/cb/"), Host="stranger.example")) == (
        "callback.signature"
    )


def test_a_prefix_that_a_proxy_takes_off_is_signed():
    receiver = CallbackReceiver(
        [CallbackAddress(f"{ORIGIN}/app/cb/{{token}}", CallbackKind.PAYMENT)], keys=[LIVE_KEY], stripped_prefix="/app"
    )
    callback = received(f"{ORIGIN}/app/cb/{UUID}", TRANSACTION, target=f"/cb/{UUID}")
    assert verify_callback(callback, at=AT, receiver=receiver).url == f"{ORIGIN}/app/cb/{UUID}"
    assert refusal(callback._replace(target=f"/app/cb/{UUID}"), receiver=receiver) == "callback.address"
    whole = callback._replace(target=f"{ORIGIN}/app/cb/{UUID}")
    assert verify_callback(whole, at=AT, receiver=receiver).token == UUID
    assert refusal(callback._replace(target=f"{ORIGIN}/cb/{UUID}"), receiver=receiver) == "callback.address"


def test_the_result_names_the_key_of_several():
    receiver = CallbackReceiver(ADDRESSES, keys=[LIVE_KEY, TEST_KEY])
    names = [verify_callback(received(key=key), at=AT, receiver=receiver).key_name for key in (LIVE, TEST)]
    assert names == ["live", "test"]


def test_a_key_counts_within_its_validity_only():
    day = timedelta(days=1)
    key = CallbackKey("old", LIVE.public_key(), not_before=AT - day, not_after=AT)
    receiver = CallbackReceiver(ADDRESSES, keys=[key])
    for at in (AT - day, AT):
        assert verify_callback(received(), at=at, receiver=receiver).key_name == "old"
    for at in (AT - day - timedelta(seconds=1), AT + timedelta(seconds=1)):
        assert refusal(received(), receiver=receiver, at=at) == "callback.signature"


def test_the_other_signature_of_the_same_bytes_holds_and_is_the_same_callback():
    callback = received()
    r, s = decode_dss_signature(bytes.fromhex(header(callback, "signature")))
    other = with_headers(callback, signature=encode_dss_signature(r, P256_ORDER - s).hex())
    first, second = (verify_callback(one, at=AT, receiver=RECEIVER) for one in (callback, other))
    assert first.signature != second.signature
    assert first.replay_key == second.replay_key == (ACCESS_URL, REQUEST_ID)


def test_one_requestid_at_two_addresses_is_two_callbacks():
    other = received(f"{ORIGIN}/cb/{UUID[::-1]}", TRANSACTION)
    one, two = (
        verify_callback(callback, at=AT, receiver=RECEIVER).replay_key
        for callback in (received(PAYMENT_URL, TRANSACTION), other)
    )
    assert one != two


def test_the_two_spellings_of_a_url_are_one_callback():
    keys = {
        verify_callback(received(url, b"{}", target="/a%2Fb/%C5%BEalias/"), at=AT, receiver=RECEIVER).replay_key
        for url in (ALIAS, ALIAS_DECODED)
    }
    assert len(keys) == 1


def test_a_result_shows_no_body_and_no_token():
    result = verify_callback(received(), at=AT, receiver=RECEIVER)
    shown = repr(result)
    assert REQUEST_ID in shown
    assert "abcdefghijklmnopqrstuvwxyz" not in shown
    assert result.__sentry_repr__() == shown


def test_header_names_have_any_case():
    callback = received()
    upper = callback._replace(headers=tuple([(name.upper(), value) for name, value in callback.headers]))
    assert verify_callback(upper, at=AT, receiver=RECEIVER).request_id == REQUEST_ID


def test_requestids_can_be_widened():
    receiver = CallbackReceiver(ADDRESSES, keys=[LIVE_KEY], request_ids=RequestIds(further=".{}", max_length=80))
    callback = received(request_id="{a.b}" + "x" * 75)
    assert verify_callback(callback, at=AT, receiver=receiver).request_id == "{a.b}" + "x" * 75
    assert refusal(callback) == "callback.request-id"


def test_the_signed_bytes_have_nothing_between_them():
    assert signed_bytes("r1", "POST", "https://tpp.example/ž", b"{}") == b"r1POSThttps://tpp.example/\xc5\xbe{}"


def test_a_time_without_zone_is_refused():
    with refused(ConfigurationError, "time.naive"):
        verify_callback(received(), at=datetime(2026, 6, 1), receiver=RECEIVER)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"keys": []}, "callback-key.setting"),
        ({"keys": [LIVE_KEY, CallbackKey("live", TEST.public_key())]}, "callback-key.setting"),
        ({"keys": [CallbackKey(str(i), LIVE.public_key()) for i in range(9)]}, "callback-key.setting"),
        ({"max_body": 65_537}, "callback.body-setting"),
        ({"max_body": 1}, "callback.body-setting"),
        ({"addresses": []}, "callback.address-unusable"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, code):
    with refused(ConfigurationError, code):
        CallbackReceiver(**{"addresses": ADDRESSES, "keys": [LIVE_KEY], **settings})
