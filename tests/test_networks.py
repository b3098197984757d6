"""Callbacks from the service's networks only, and who really sent a request."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._networks import parse_networks, real_peer, verify_peer
from tppkit.errors import ConfigurationError, VerificationError

SERVICE = parse_networks(["203.0.113.0/28", "2001:db8::/64"])
PROXIES = parse_networks(["10.0.0.0/8", "::1"])


def refusal(peer: str, **settings) -> str:
    with pytest.raises(VerificationError) as refused:
        verify_peer(peer, **{"allowed": SERVICE, **settings})
    return refused.value.code


@pytest.mark.parametrize("peer", ["203.0.113.1", "203.0.113.15", "2001:db8::7", "::ffff:203.0.113.1"])
def test_the_services_addresses_are_allowed(peer):
    assert str(verify_peer(peer, allowed=SERVICE)) == peer.removeprefix("::ffff:")


@pytest.mark.parametrize(
    "peer", ["203.0.113.16", "2001:db8:0:1::7", "127.0.0.1", "", "unix", "203.0.113.01", "203.0.113.1:80"]
)
def test_other_addresses_are_refused(peer):
    assert refusal(peer) == "callback.peer"


def test_an_empty_list_allows_no_address():
    assert refusal("203.0.113.1", allowed=()) == "callback.peer"


def test_a_header_counts_only_when_a_proxy_of_ours_wrote_it():
    assert refusal("198.51.100.1", forwarded_for=["203.0.113.1"]) == "callback.peer"
    assert refusal("198.51.100.1", forwarded_for=["203.0.113.1"], trusted_proxies=PROXIES) == "callback.peer"
    address = verify_peer("10.0.0.1", allowed=SERVICE, forwarded_for=["203.0.113.1"], trusted_proxies=PROXIES)
    assert str(address) == "203.0.113.1"


@pytest.mark.parametrize(
    ("hop", "address"),
    [("203.0.113.1:80", "203.0.113.1"), ("[2001:db8::7]:443", "2001:db8::7"), ("[2001:db8::7]", "2001:db8::7")],
)
def test_a_port_behind_an_address_in_the_header_is_ignored(hop, address):
    assert str(real_peer("10.0.0.1", trusted_proxies=PROXIES, forwarded_for=[hop])) == address


@pytest.mark.parametrize(
    "hop", ["203.0.113.1:", "203.0.113.1:80:80", "2001:db8::7]:80", "[]:80", "[203.0.113.1:80", ":80"]
)
def test_an_unreadable_address_in_the_header_is_refused(hop):
    assert refusal("10.0.0.1", trusted_proxies=PROXIES, forwarded_for=[hop]) == "callback.peer"


def test_the_nearest_address_that_is_not_a_trusted_proxy_is_the_peer():
    # What stands left of it, the stranger wrote.
    chain = ["203.0.113.1, 198.51.100.1", " 10.1.1.1\t,::1"]
    assert str(real_peer("10.0.0.1", trusted_proxies=PROXIES, forwarded_for=chain)) == "198.51.100.1"


def test_a_chain_of_proxies_only_ends_with_the_last():
    assert str(real_peer("10.0.0.1", trusted_proxies=PROXIES, forwarded_for=["10.0.0.2"])) == "10.0.0.2"
    assert str(real_peer("10.0.0.1", trusted_proxies=PROXIES)) == "10.0.0.1"


def test_a_chain_is_bounded():
    with pytest.raises(VerificationError):
        real_peer("10.0.0.1", forwarded_for=["10.0.0.1," * 16 + "10.0.0.1"], trusted_proxies=PROXIES)
    assert (
        refusal("10.0.0.1", forwarded_for=["203.0.113.1" + ",10.0.0.1" * 40], trusted_proxies=PROXIES)
        == "callback.peer"
    )


@pytest.mark.parametrize("text", ["", "203.0.113.1/28", "a", "203.0.113.0/33"])
def test_networks_are_read_strictly(text):
    with refused(ConfigurationError, "callback.networks"):
        parse_networks([text])


@given(st.text(), st.lists(st.text(alphabet="0123456789.,: a", max_size=30), max_size=3))
def test_only_refusals_escape(peer, chain):
    for first in (peer, "10.0.0.1"):
        with suppress(VerificationError):
            verify_peer(first, allowed=SERVICE, trusted_proxies=PROXIES, forwarded_for=chain)
