"""Encryption of stored cards, and its key."""

from __future__ import annotations

import base64
import secrets
from itertools import count
from pathlib import Path

import pytest

from tppkit.errors import ConfigurationError
from tppkit.protocol.gateway import CardSecret
from tppkit.sandbox.gateway.cipher import VARIABLE, CardCipher, StoredCard

CARD = StoredCard(CardSecret("4111111111111111"), CardSecret("122030"), "Ona Onaitė")
PLACE = {"project_id": "4be1c1f4-8a3c-4f6f-9d6d-0c9b8a1c2d3e", "vault_token": "0b1f8b0e-6a1e-4c69-9a55-1f3e5d7c9b21"}
KEY = {VARIABLE: base64.b64encode(bytes(range(32))).decode()}


@pytest.fixture
def cipher(tmp_path: Path) -> CardCipher:
    return CardCipher.open(tmp_path, {})


def test_a_card_is_encrypted_for_its_project_and_token_and_differently_each_time(cipher):
    sealed = [cipher.encrypt(CARD, **PLACE) for _ in range(2)]
    assert [cipher.decrypt(one, **PLACE) for one in sealed] == [CARD, CARD]
    assert sealed[0] != sealed[1]
    assert b"411111" not in sealed[0] + sealed[1]
    assert b"Ona" not in sealed[0] + sealed[1]


def test_the_nonce_comes_from_the_randomness_that_was_given(tmp_path):
    numbers = count(1)
    cipher = CardCipher.open(tmp_path, KEY, random=lambda size: next(numbers).to_bytes(size))
    assert [cipher.encrypt(CARD, **PLACE)[:12] for _ in range(2)] == [bytes(11) + b"\1", bytes(11) + b"\2"]


def test_a_key_is_made_once_for_its_owner_alone(tmp_path, cipher):
    sealed = cipher.encrypt(CARD, **PLACE)
    again = CardCipher.open(tmp_path, {})
    assert again.decrypt(sealed, **PLACE) == CARD
    assert (tmp_path / "gateway" / "vault.key").stat().st_mode & 0o777 == 0o600


def test_the_key_of_the_environment_is_used_and_none_is_made(tmp_path):
    sealed = CardCipher.open(tmp_path, KEY).encrypt(CARD, **PLACE)
    assert CardCipher(bytes(range(32)), source="test").decrypt(sealed, **PLACE) == CARD
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", PLACE)
def test_a_card_of_another_project_or_token_does_not_decrypt(name, cipher):
    sealed = cipher.encrypt(CARD, **PLACE)
    with pytest.raises(ConfigurationError) as refused:
        cipher.decrypt(sealed, **PLACE | {name: "another"})
    assert refused.value.code == "vault.key"


@pytest.mark.parametrize("change", [lambda sealed: sealed[:-1], lambda sealed: sealed[:5], lambda _: b""])
def test_a_card_that_was_changed_does_not_decrypt(change, cipher):
    sealed = change(cipher.encrypt(CARD, **PLACE))
    with pytest.raises(ConfigurationError, match=r"vault\.key"):
        cipher.decrypt(sealed, **PLACE)


def test_another_key_is_detected(tmp_path, cipher):
    sealed = cipher.encrypt(CARD, **PLACE)
    with pytest.raises(ConfigurationError, match=f"{VARIABLE}: give the key") as refused:
        CardCipher.open(tmp_path, KEY).decrypt(sealed, **PLACE)
    assert refused.value.code == "vault.key"


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_a_key_of_another_length_is_refused_and_not_shown(size, tmp_path):
    text = base64.b64encode(secrets.token_bytes(size)).decode()
    with pytest.raises(ConfigurationError) as refused:
        CardCipher.open(tmp_path, {VARIABLE: text})
    assert refused.value.code == "vault.key"
    assert not text or text not in repr(refused.value)


@pytest.mark.parametrize("text", ["a" * 43, "ä" * 44, "not base64!", "a" * 64])
def test_a_text_that_is_not_a_key_is_refused_in_the_environment_and_in_the_file(text, tmp_path):
    for environment in ({VARIABLE: text}, {}):
        (tmp_path / "gateway").mkdir(exist_ok=True)
        (tmp_path / "gateway" / "vault.key").write_text(text, "utf-8")
        with pytest.raises(ConfigurationError) as refused:
            CardCipher.open(tmp_path, environment)
        assert refused.value.code == "vault.key"
        assert text not in str(refused.value)


def test_a_card_is_not_shown(cipher):
    assert "4111" not in repr(CARD)
    assert "Ona" not in repr(CARD)
