"""Bodies in another character set than the one that was hashed, and bodies that were encoded twice: each is told as what it is."""

from __future__ import annotations

import pytest
from wrong_signer import seal_wrongly

from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki

TEXT, LATIN_TEXT = '{"a":"Žąsė €"}', '{"a":"Café"}'
TWICE = [
    (TEXT.encode(), "latin-1"), (LATIN_TEXT.encode(), "cp1252"), (LATIN_TEXT.encode(), "cp1257"),
    (LATIN_TEXT.encode(), "cp1250"), (TEXT.encode(), "cp437"),
]  # fmt: skip


def causes(pki: Pki, sent: bytes, hashed: bytes) -> list[str]:
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, body=sent, hashed=lambda body: hashed))
    assert (diagnosis.outcome is Outcome.EXPLAINED) is bool(diagnosis.causes)
    return [cause.name for cause in diagnosis.causes]


@pytest.mark.parametrize(("right", "read_as"), TWICE[:-1])
def test_a_text_that_was_encoded_twice_is_told_in_both_directions(pki: Pki, right: bytes, read_as: str) -> None:
    twice = right.decode(read_as).encode()
    assert causes(pki, right, twice) == ["body-utf-8-twice"]
    assert causes(pki, twice, right) == ["body-sent-utf-8-twice"]


def test_a_text_that_was_encoded_twice_by_way_of_an_unknown_character_set_is_not_told(pki: Pki) -> None:
    right, read_as = TWICE[-1]
    twice = right.decode(read_as).encode()
    assert causes(pki, right, twice) == []
    assert causes(pki, twice, right) == []


@pytest.mark.parametrize(
    ("text", "character_set", "hashed_so", "sent_so"),
    [
        (LATIN_TEXT, "latin-1", ["body-latin-1"], ["body-from-latin-1"]),
        ('{"a":"5 €"}', "cp1252", ["body-latin-1"], ["body-from-latin-1"]),
        ('{"a":"Žąsė"}', "cp1257", ["body-code-page"], []),
    ],
)
def test_another_character_set_is_not_told_as_encoded_twice(
    pki: Pki, text: str, character_set: str, hashed_so: list[str], sent_so: list[str]
) -> None:
    assert causes(pki, text.encode(), text.encode(character_set)) == hashed_so
    assert causes(pki, text.encode(character_set), text.encode()) == sent_so
