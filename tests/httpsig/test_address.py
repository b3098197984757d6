"""Host and target of an address."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import FormatError
from tppkit.httpsig.address import split_address


@pytest.mark.parametrize(
    ("text", "host", "target"),
    [
        ("https://a.example", "a.example", "/"), ("http://a:80/b/../c//d", "a:80", "/b/../c//d"), ("HTTPS://A/?x=%2f#y", "A", "/?x=%2f"),
        ("https://a?x=1", "a", "/?x=1"), ("https://[::1]:8443/a?", "[::1]:8443", "/a?"), ("https://me:pw@a/b", "a", "/b"),
    ],
)  # fmt: skip
def test_the_target_is_kept_unchanged(text: str, host: str, target: str) -> None:
    assert split_address(text) == (host, target)


@pytest.mark.parametrize(
    "text",
    ["", "a", "ftp://a/", "https:///a", "https://a b/", "https://a/\n", "https://é/", "https://a/" + "b" * 20000],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="http"):
        split_address(text)


@given(st.text() | st.text(alphabet="htps:/@?#a[].", max_size=40))
def test_only_format_error_escapes(text: str) -> None:
    with suppress(FormatError):
        split_address(text)
