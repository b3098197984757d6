"""What is decided before a body is read: from where a callback comes, and to which address."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.callbacks import CallbackAddress, CallbackKind, parse_networks
from tppkit.callbacks.addresses import AddressBook
from tppkit.errors import ConfigurationError, FormatError, VerificationError
from tppkit.web import AsgiSource, CallbackPeers, WsgiSource
from tppkit.web.receiving.callbacks import read_target


def refused_by(peers: CallbackPeers, source: AsgiSource | WsgiSource) -> bool:
    try:
        peers.require(source)
    except VerificationError as e:
        return e.code == "callback.peer"
    return False


def asgi(client: tuple[str, int] | None, *forwarded: str, server: Any = ("127.0.0.1", 80)) -> AsgiSource:
    return AsgiSource(
        {
            "client": client,
            "server": server,
            "headers": [(b"x-forwarded-for", value.encode()) for value in forwarded],
        }
    )


def wsgi(address: str, forwarded: str | None = None, **more: Any) -> WsgiSource:
    return WsgiSource({"REMOTE_ADDR": address, **more, **({"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {})})


SERVICE_ONLY = CallbackPeers(parse_networks(["203.0.113.0/28"]))
BEHIND = CallbackPeers(parse_networks(["203.0.113.0/28"]), trusted_proxies=parse_networks(["10.0.0.1"]))
SOCKET = ("/run/app.sock", None)
UNIX, _other = socket.socketpair(socket.AF_UNIX)
UNIX.close()
_other.close()
ON_SOCKET = CallbackPeers(parse_networks(["203.0.113.0/28"]), unix_socket=True)


ACCEPTED = [
    (SERVICE_ONLY, asgi(("203.0.113.7", 1))),
    (SERVICE_ONLY, wsgi("203.0.113.7")),
    (BEHIND, asgi(("10.0.0.1", 1), "198.51.100.1, 203.0.113.7")),
    (BEHIND, asgi(("10.0.0.1", 1), "198.51.100.1", "203.0.113.7")),
    (BEHIND, wsgi("10.0.0.1", "203.0.113.7")),
    (BEHIND, asgi(("10.0.0.1", 1), "203.0.113.7:80")),
    (ON_SOCKET, wsgi("", "203.0.113.7", **{"gunicorn.socket": UNIX})),
    (ON_SOCKET, asgi(None, "203.0.113.7", server=SOCKET)),
]
REFUSED = [
    (SERVICE_ONLY, asgi(("198.51.100.1", 1))),
    (SERVICE_ONLY, asgi(("198.51.100.1", 1), "203.0.113.7")),
    (SERVICE_ONLY, wsgi("198.51.100.1", "203.0.113.7")),
    (SERVICE_ONLY, asgi(None)),
    (SERVICE_ONLY, asgi(None, "203.0.113.7")),
    (SERVICE_ONLY, asgi(("203.0.113.7", 0))),  # a server put a header's address there
    (SERVICE_ONLY, asgi(("203.0.113.7", 80), "203.0.113.7:80")),
    (BEHIND, asgi(("203.0.113.7", 80), "203.0.113.7:80")),
    (ON_SOCKET, asgi(("203.0.113.7", 80), "203.0.113.7:80", server=SOCKET)),
    (BEHIND, asgi(("10.0.0.2", 1), "203.0.113.7")),
    (BEHIND, asgi(("10.0.0.1", 1), "203.0.113.7, 198.51.100.1")),
    (BEHIND, asgi(("10.0.0.1", 1))),
    (BEHIND, asgi(None, "203.0.113.7")),
    (ON_SOCKET, asgi(("198.51.100.1", 1), "203.0.113.7")),
    (ON_SOCKET, wsgi("", "203.0.113.7, 198.51.100.1", **{"gunicorn.socket": UNIX})),
    (ON_SOCKET, wsgi("", "203.0.113.7")),
    (ON_SOCKET, asgi(None, "203.0.113.7")),  # a connection that was reset
    (ON_SOCKET, asgi(("unix", 1), "203.0.113.7")),  # text from a header
    (ON_SOCKET, wsgi("unix", "203.0.113.7")),
    # An address that a server may have taken from any header.
    *((SERVICE_ONLY, AsgiSource({"client": ("203.0.113.7", 80), "headers": [(header, b"203.0.113.7:80")]}))
      for header in (b"forwarded", b"x-real-ip", b"X-Forwarded-For")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("peers", "source", "is_refused"), [*((*row, False) for row in ACCEPTED), *((*row, True) for row in REFUSED)]
)
def test_the_service_is_accepted_and_other_addresses_are_not(peers, source, is_refused):
    assert refused_by(peers, source) is is_refused


def test_an_address_in_a_long_header_or_in_what_may_be_a_trailer_is_not_trusted():
    long = "1," * 1024 + "203.0.113.7"
    assert refused_by(BEHIND, asgi(("10.0.0.1", 1), long))
    assert refused_by(BEHIND, wsgi("10.0.0.1", long))
    raw = CallbackPeers(BEHIND.allowed, trusted_proxies=BEHIND.trusted_proxies, address_is_raw=True)
    assert not refused_by(raw, asgi(("10.0.0.1", 1), long))
    # uvicorn with httptools appends trailers to the headers: the last X-Forwarded-For is then the sender's own word.
    chunked = [(b"transfer-encoding", b"chunked"), (b"x-forwarded-for", b"203.0.113.7")]
    with refused(FormatError, "message.no-length"):
        BEHIND.require(AsgiSource({"client": ("10.0.0.1", 1), "headers": chunked}))
    SERVICE_ONLY.require(AsgiSource({"client": ("203.0.113.7", 1), "headers": chunked[:1]}))


def test_the_proxys_header_counts_by_http2_only_where_it_was_configured():
    headers = [(b"x-forwarded-for", b"203.0.113.7")]
    source = AsgiSource({"client": ("10.0.0.1", 1), "headers": headers, "http_version": "2"})
    assert refused_by(BEHIND, source)
    assert not refused_by(replace(BEHIND, http2=True), source)
    wide = replace(BEHIND, allowed=parse_networks(["10.0.0.0/8"]))
    assert refused_by(wide, AsgiSource({"client": ("10.0.0.1", 1), "headers": [], "http_version": "2"}))


@given(st.lists(st.sampled_from("az09/%{}:?&=+ ;@ž\u0100"), max_size=20).map(lambda parts: "/" + "".join(parts)))
def test_a_target_that_is_put_together_again_is_decoded_to_the_same_path(path):
    """Under WSGI without a raw target; the address book compares decoded paths."""
    environ = {"REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": path.encode().decode("latin-1")}
    target = read_target(WsgiSource(environ))
    assert target is not None
    assert unquote_to_bytes(target) == path.encode()
    assert target.isascii()


@pytest.mark.parametrize("prefix", ["", "/app"])
def test_a_target_that_is_put_together_again_finds_its_address_and_what_is_not_a_path_has_none(prefix):
    book = AddressBook([CallbackAddress("https://tpp.example/app/a%2Fb/%C5%BE?x=%2F", CallbackKind.OTHER)])
    whole = "/app/a/b/\xc5\xbe"
    environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": prefix,
        "PATH_INFO": whole.removeprefix(prefix),
        "QUERY_STRING": "x=%2F",
    }
    found = book.find(read_target(WsgiSource(environ)) or "")
    assert found is not None
    assert b"https://tpp.example/app/a%2Fb/%C5%BE?x=%2F" in found.urls
    assert read_target(AsgiSource({"headers": [], "raw_path": b"*", "path": "*"})) is None


@pytest.mark.parametrize("texts", [["203.0.113.0/28"], "203.0.113.0/28", [None]])
@pytest.mark.parametrize("name", ["allowed", "trusted_proxies"])
def test_networks_that_were_not_read_are_refused_where_they_are_given(name, texts):
    with refused(ConfigurationError, "callback.networks"):
        CallbackPeers(**{"allowed": (), name: texts})
