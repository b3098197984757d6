"""Each known mistake, made by a real sender: it is named, it alone, and it is proven."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.hashes import SHA512
from wrong_signer import SINGLE, pss, seal_wrongly

from tppkit.seals import PROFILES
from tppkit.seals.diagnose import DiagnosisOutcome, diagnose_request
from tppkit.seals.diagnose.mistakes import MISTAKES
from tppkit.seals.profiles import PSD2_V1

pytestmark = pytest.mark.slow

# With P-256, whose verifications cost most, where it can happen with such a key; the fast tests make each mistake once.
ROWS = [pytest.param(case, kind, marks=[pytest.mark.slow] * (number > 0), id=f"{case.name}-{kind}")
        for case in SINGLE for number, kind in enumerate(reversed(case.keys))]  # fmt: skip
# Made in `test_examination`, since they need other keys or another dialect.
ELSEWHERE = {"certificate-not-seal", "key-of-other", "key-of-qwac", "other-dialect", "pss-salt-length"}


def test_every_row_has_its_own_name_a_cause_and_a_fix_and_a_request_that_makes_its_mistake():
    assert MISTAKES.keys() - {case.name for case in SINGLE} == ELSEWHERE
    assert [name for name in MISTAKES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []
    assert [row.name for row in MISTAKES.values() if not (row.cause.endswith(".") and row.fix.endswith("."))] == []


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_right_request_verifies(pkis, kind):
    diagnosis = diagnose_request(seal_wrongly(pkis[kind].qseal))
    assert (diagnosis.outcome, diagnosis.causes) == (DiagnosisOutcome.VERIFIES, ())


@pytest.mark.parametrize(("case", "kind"), ROWS)
def test_each_mistake_of_a_request_is_named_and_nothing_else(pkis, case, kind):
    own = pkis[kind]
    message = seal_wrongly(own.qseal, **case.steps)
    diagnosis = diagnose_request(message, certificates=(own.qseal.certificate, own.qwac.certificate))
    assert [cause.name for cause in diagnosis.causes] == [case.name]
    assert diagnosis.outcome is DiagnosisOutcome.EXPLAINED
    assert all(cause.evidence for cause in diagnosis.causes)


def test_a_salt_of_another_length_than_the_hash_is_named(rsa_pki):
    profile = replace(PSD2_V1, name="mine", algorithms=PROFILES["cavage-12"].algorithms)
    signer = pss(20, hashed=SHA512(), mgf=SHA512())
    message = seal_wrongly(rsa_pki.qseal, algorithm="hs2019", signer=signer)
    assert [cause.name for cause in diagnose_request(message, profile=profile).causes] == ["pss-salt-length"]


# (what was sent, what was hashed, the causes): near misses are named for what they are, or not at all.
BODIES = [
    ('{"a":"ė/"}'.encode(), rb'{"a":"\u0117\/"}', {"json-slashes"}),
    ('{"a":"ü"}'.encode(), rb'{"a":"\u00fc"}', {"json-escaped"}), (b'{"a":1}', b'\xef\xbb\xbf{"a":1}', {"body-bom-dropped"}),
    (rb'{"a" : "A\/\u0026\u0117\""}', rb'{"a":"A\/\u0026\u0117\""}', {"json-compact"}),
    (rb'{"b":"\/\u00e9","a":12.50}', rb'{"a":12.50,"b":"\/\u00e9"}', {"json-sorted"}),
    (rb'{"a":"A\/B\u0117"}', '{"a":"A/Bė"}'.encode(), set()),
    (b'{"a":"x=1"}', rb'{"a":"x\u003d1"}', {"json-html-escaped"}),
    (b'{\r\n"a":1\r\n}\r\n', b'{\n"a":1\n}', set()),
    (b'{"a": 99.50}', b'{"a":12.50}', set()), (b'{"a":12.51}', b'{"a":12.5}', set()), (rb'{"a":"A\/B"}', b'{"a":"A/C"}', set()),
    (b'{"a":"number 1"}', b'{"a":1}', set()), (rb'{"a":"\\u0117"}', '{"a":"ė"}'.encode(), set()),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "hashed", "causes"), BODIES)
def test_a_body_is_explained_only_by_what_was_done_to_it(pki, sent, hashed, causes):
    diagnosis = diagnose_request(seal_wrongly(pki.qseal, body=sent, hashed=lambda body: hashed))
    assert {cause.name for cause in diagnosis.causes} == causes
    assert (diagnosis.outcome is DiagnosisOutcome.EXPLAINED) is bool(causes)


TOOLS = ["{}\n", "{}  -\n", "SHA2-256(stdin)= {}\n", "(stdin)= {}\n"]


@pytest.mark.parametrize("printed", TOOLS)
def test_what_a_shell_tool_prints_in_place_of_a_hash_is_named(pki, printed):
    def text(data: bytes) -> bytes:
        return printed.format(sha256(data).hexdigest()).encode()

    digest = seal_wrongly(pki.qseal, digest=lambda body: f"SHA-256={b64encode(text(body)).decode()}")
    assert [cause.name for cause in diagnose_request(digest).causes] == ["digest-base64-of-hex"]
    assert [cause.name for cause in diagnose_request(seal_wrongly(pki.qseal, string=text)).causes] == [
        "hashed-first-as-hex"
    ]
