"""Bodies of JSON that were written anew: white space is told as white space, an escape as an escape, and nothing as the other."""

from __future__ import annotations

import pytest
from wrong_signer import seal_wrongly

from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki

# One text each that differs in one thing: (with the characters, with their escapes, undone, made)
ESCAPES = [
    ('{"a":"A/B"}', r'{"a":"A\/B"}', "json-unescaped", "json-slashes"),
    ('{"a":"ė"}', r'{"a":"\u0117"}', "json-unescaped", "json-escaped"),
    ('{"a":"ė/"}', r'{"a":"\u0117\/"}', "json-unescaped", "json-slashes"),
    ('{"a":"ė😀"}', r'{"a":"\u0117\ud83d\ude00"}', "json-unescaped", "json-escaped"),
    ('{"a":"x&y"}', r'{"a":"x\u0026y"}', "json-unescaped", "json-html-escaped"),
    ('{"a":"x=y"}', r'{"a":"x\u003dy"}', "json-unescaped", "json-html-escaped-gson"),
    (r'{"a":"\u00e9"}', r'{"a":"\u00E9"}', "json-escape-case", "json-escape-case"),
    (r'{"a": "\\/\" A/B"}', r'{"a": "\\\/\" A\/B"}', "json-unescaped", "json-slashes"),
    (r'{"a":"\n"}', r'{"a":"\u000a"}', "json-unescaped", "json-long-escapes"),
    (r'{"a":"\n\\"}', r'{"a":"\u000A\u005C"}', "json-unescaped", "json-long-escapes"),
    (r'{"a":"\"\n\\n"}', r'{"a":"\u0022\n\\n"}', "json-unescaped", "json-long-escapes"),
    ('{"a":  "A/B", "é":1}', r'{"a":  "A\/B", "é":1}', "json-unescaped", "json-slashes"),
]


def causes(pki: Pki, sent: bytes, hashed: bytes) -> list[str]:
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, body=sent, hashed=lambda body: hashed))
    assert (diagnosis.outcome is Outcome.EXPLAINED) is bool(diagnosis.causes)
    return [cause.name for cause in diagnosis.causes]


@pytest.mark.parametrize(("plain", "escaped", "undone", "made"), ESCAPES)
def test_an_escape_is_told_as_an_escape_in_both_directions(
    pki: Pki, plain: str, escaped: str, undone: str, made: str
) -> None:
    assert causes(pki, escaped.encode(), plain.encode()) == [undone]
    assert causes(pki, plain.encode(), escaped.encode()) == [made]


SPACED = [
    (r'{"a" : "A\/\u0026\u0117\""}', r'{"a":"A\/\u0026\u0117\""}', "json-compact"),
    (r'{"b":"\\","\u0061":[1,2.0]}', r'{"b": "\\", "\u0061": [1, 2.0]}', "json-python"),
    (r'{"b":"\/\"","a":12.50}', '{\n  "b": "\\/\\"",\n  "a": 12.50\n}', "json-pretty"),
    (r'{"b":"\/\u00e9","a":12.50}', r'{"a":12.50,"b":"\/\u00e9"}', "json-sorted"),
    (r'{"b":"\/\u00e9","a":null}', r'{"b":"\/\u00e9"}', "json-nulls-dropped"),
]


@pytest.mark.parametrize(("sent", "hashed", "name"), SPACED)
def test_what_else_is_written_anew_beside_escapes_is_told_alone(pki: Pki, sent: str, hashed: str, name: str) -> None:
    assert causes(pki, sent.encode(), hashed.encode()) == [name]


@pytest.mark.parametrize(
    ("sent", "hashed", "expected"),
    [
        (r'{"a": "x\u0026y\"\u0117"}', '{"a":"x&y\\"ė"}', ["json-unescaped", "json-compact"]),
        ('{"a":"ė"}', r'{"a": "\u0117"}', ["json-escaped", "json-python"]),
        ('{"a": "ė/"}', r'{"a":"\u0117\/"}', ["json-slashes", "json-compact"]),
        (r'{"b":"\/","a":1}', '{"a":1,"b":"/"}', ["json-unescaped", "json-sorted"]),
    ],
)
def test_escapes_and_white_space_together_are_two_causes(pki: Pki, sent: str, hashed: str, expected: list[str]) -> None:
    assert causes(pki, sent.encode(), hashed.encode()) == expected


@pytest.mark.parametrize(
    ("sent", "hashed"),
    [
        (r'{"a":"A\/B"}', '{"a":"A/C"}'),
        (r'{"a":"\u0117"}', '{"a":"e"}'),
        (r'{"a":"\q/B"}', r'{"a":"\q\/B"}'),
        (r'{"a":"A\\/B"}', '{"a":"A/B"}'),
        (r'{"a":"\\u0117"}', '{"a":"ė"}'),
        (r'{"a":"\\n"}', r'{"a":"\\u000a"}'),
        (r'{"a":"\n"}', r'{"a":"\u000d"}'),
    ],
)
def test_another_text_is_no_escape(pki: Pki, sent: str, hashed: str) -> None:
    assert causes(pki, sent.encode(), hashed.encode()) == []
