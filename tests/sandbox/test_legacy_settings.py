"""Keys of the legacy interface's hosts: created once, and never read from a file that is not a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tppkit.errors import ConfigurationError
from tppkit.sandbox.legacy.settings import LegacyHost, public_pem


def opened(folder: Path) -> LegacyHost:
    return LegacyHost.open(folder, "test", pages_url="https://bank.example")


def test_keys_are_made_once_and_the_public_key_follows_the_private_one(tmp_path):
    host = opened(tmp_path)
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {".key": 0o600, ".api-key": 0o600, ".pem": 0o644}
    host.public_key.write_bytes(b"of another key")
    again = opened(tmp_path)
    assert (again.api_key, public_pem(again.signing_key)) == (host.api_key, public_pem(host.signing_key))
    assert host.public_key.read_bytes() == public_pem(host.signing_key)


@pytest.mark.parametrize(
    ("name", "content"),
    [("test.key", b""), ("test.api-key", b""), ("test.api-key", b"\xff" * 32), ("test.api-key", b"0" * 31)],
)
def test_a_file_that_is_not_a_key_is_refused(name, content, tmp_path):
    opened(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        opened(tmp_path)
    assert refused.value.code == "legacy.key"
    assert str(tmp_path / name) in refused.value.message
