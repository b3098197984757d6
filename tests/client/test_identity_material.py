"""An identity from files, PKCS#12, the environment and memory: the same one, and the same errors."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from refusals import refused
from tppkit.client import Identity
from tppkit.errors import ConfigurationError, FormatError, TppkitError
from tppkit.httpsig import KeySigner
from tppkit.seals import PROFILES
from tppkit.testpki import Issued, Pki, certificate_pem, key_pem

PASSWORD = b"correct horse"


def p12(issued: Issued, *, key: bool = True, password: bytes = PASSWORD) -> bytes:
    return pkcs12.serialize_key_and_certificates(
        b"x", issued.key if key else None, issued.certificate.x509, [c.x509 for c in issued.chain],
        BestAvailableEncryption(password),
    )  # fmt: skip


def der_key(issued: Issued) -> bytes:
    return issued.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def in_pem(pki: Pki) -> dict[str, bytes]:
    return {
        "qwac": b"".join(certificate_pem(one) for one in (pki.qwac.certificate, *pki.qwac.chain)),
        "qwac_key": key_pem(pki.qwac.key),
        "qseal": certificate_pem(pki.qseal.certificate),
        "qseal_key": key_pem(pki.qseal.key),
        "server_anchors": certificate_pem(pki.root.certificate),
    }


def in_der(pki: Pki) -> dict[str, bytes]:
    return {
        "qwac": pki.qwac.certificate.der,
        "qwac_key": der_key(pki.qwac),
        "qseal": pki.qseal.certificate.der,
        "qseal_key": der_key(pki.qseal),
        "server_anchors": pki.root.certificate.der,
    }


def in_pkcs12(pki: Pki) -> dict[str, bytes]:
    return {"qwac": p12(pki.qwac), "qseal": p12(pki.qseal), "password": PASSWORD}


def written(parts: Mapping[str, bytes], folder: Path) -> dict[str, Any]:
    """Paths of files that hold the parts; the password stays as it is."""
    for name, data in parts.items():
        (folder / name).write_bytes(data)
    return {name: data if name.endswith("password") else folder / name for name, data in parts.items()}


def variables(parts: Mapping[str, bytes], *, escaped: bool = False) -> dict[str, str]:
    found = {}
    for name, data in parts.items():
        text = (
            data.decode() if data.startswith(b"-----") or name.endswith("password") else base64.b64encode(data).decode()
        )
        found[f"TPPKIT_{name.upper()}"] = text.replace("\n", "\\n") if escaped else text
    return found


SOURCES: dict[str, Callable[[Pki, Path], Identity]] = {
    "files, PEM": lambda pki, folder: Identity.from_files(**written(in_pem(pki), folder)),
    "files, DER": lambda pki, folder: Identity.from_files(**written(in_der(pki), folder)),
    "PKCS#12": lambda pki, folder: Identity.from_pkcs12(**written(in_pkcs12(pki), folder)),
    "memory, PEM": lambda pki, folder: Identity.from_memory(**in_pem(pki)),
    "memory, DER": lambda pki, folder: Identity.from_memory(**in_der(pki)),
    "memory, PKCS#12": lambda pki, folder: Identity.from_memory(**in_pkcs12(pki)),
    "environment": lambda pki, folder: Identity.from_environment(variables(in_pem(pki))),
    "environment, one line": lambda pki, folder: Identity.from_environment(variables(in_pem(pki), escaped=True)),
    "environment, base64": lambda pki, folder: Identity.from_environment(variables(in_pkcs12(pki))),
    "environment, files": lambda pki, folder: Identity.from_environment(
        {f"TPPKIT_{name.upper()}_FILE": str(path) for name, path in written(in_pem(pki), folder).items()}
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_identity(source, bank_pki, tmp_path):
    identity = SOURCES[source](bank_pki, tmp_path)
    assert identity.qwac == bank_pki.qwac.certificate
    assert identity.seal is not None
    assert identity.seal.certificate == bank_pki.qseal.certificate


def in_two_passwords(pki: Pki) -> dict[str, bytes]:
    both = {"qwac": p12(pki.qwac, password=b"one"), "qseal": p12(pki.qseal, password=b"two")}
    return both | {"qwac_password": b"one", "qseal_password": b"two"}


def one_key_encrypted(pki: Pki) -> dict[str, bytes]:
    encrypted = pki.qseal.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD))
    return in_pem(pki) | {"qseal_key": encrypted, "password": PASSWORD}


BY_PARTS: dict[str, Callable[[Pki], dict[str, bytes]]] = {
    "two passwords": in_two_passwords,
    "one for both, and one of its own": lambda pki: (
        {name: data for name, data in in_two_passwords(pki).items() if name != "qseal_password"} | {"password": b"two"}
    ),
    "one key is encrypted": one_key_encrypted,
    "one key is encrypted, with a password of its own": lambda pki: (
        {("qseal_password" if name == "password" else name): data for name, data in one_key_encrypted(pki).items()}
    ),
    "an empty password": lambda pki: in_pem(pki) | {"password": b""},
}


@pytest.mark.parametrize("where", ["memory", "files", "environment"])
@pytest.mark.parametrize("parts", BY_PARTS)
def test_each_part_may_have_a_password_of_its_own(parts, where, bank_pki, tmp_path):
    found = BY_PARTS[parts](bank_pki)
    from_files = Identity.from_files if "qwac_key" in found else Identity.from_pkcs12
    identity = {
        "memory": lambda: Identity.from_memory(**found),
        "files": lambda: from_files(**written(found, tmp_path)),
        "environment": lambda: Identity.from_environment(variables(found)),
    }[where]()
    assert identity.seal is not None
    assert (identity.qwac, identity.seal.certificate) == (bank_pki.qwac.certificate, bank_pki.qseal.certificate)


def test_a_password_of_a_part_is_not_tried_on_the_other(bank_pki):
    for left_out, part in (("qwac_password", "QWAC"), ("qseal_password", "QSEAL")):
        with pytest.raises(TppkitError, match=f"^{part}"):
            Identity.from_memory(**without(in_two_passwords(bank_pki), left_out))


def test_a_function_that_returns_a_password_is_called_once(bank_pki):
    asked: list[str] = []

    def give(name: str, password: bytes) -> bytes:
        asked.append(name)
        return password

    found = in_two_passwords(bank_pki)
    passwords = {name: partial(give, name, found[name]) for name in ("qwac_password", "qseal_password")}
    unasked = partial(give, "password", b"")
    Identity.from_memory(**found | passwords, password=unasked)  # type: ignore[arg-type]
    assert sorted(asked) == ["qseal_password", "qwac_password"]
    asked.clear()
    Identity.from_memory(**in_pkcs12(bank_pki) | {"password": partial(give, "password", PASSWORD)})  # type: ignore[arg-type]
    assert asked == ["password"]


def test_an_empty_variable_is_an_absent_one_and_the_prefix_of_names_may_be_chosen(bank_pki):
    empty = {f"TPPKIT_{name}": "" for name in ("PASSWORD", "PASSWORD_FILE", "QSEAL_PASSWORD", "QSEAL", "QSEAL_FILE")}
    found = {name: text for name, text in variables(in_pem(bank_pki)).items() if "QSEAL" not in name} | empty
    assert Identity.from_environment(found).seal is None
    found = {name.replace("TPPKIT_", "BANK_"): text for name, text in variables(in_pem(bank_pki)).items()}
    assert Identity.from_environment(found, prefix="BANK_").seal is not None


def test_an_empty_variable_of_a_part_leaves_it_the_common_password(bank_pki):
    Identity.from_environment(variables(in_pkcs12(bank_pki)) | {"TPPKIT_QWAC_PASSWORD": ""})


@pytest.fixture
def empty_p12(bank_pki_folder: Path, tmp_path: Path) -> Path:
    """OpenSSL's file with the QWAC and an empty password, which cryptography does not write."""
    command = ["openssl", "pkcs12", "-export", "-passout", "pass:", "-out", "empty.p12", "-in"]
    files = [bank_pki_folder / "qwac-chain.pem", "-inkey", bank_pki_folder / "qwac.key"]
    subprocess.run([*command, *files], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "empty.p12"


@pytest.mark.parametrize(
    "passwords",
    [
        {"password": ""},
        {"qwac_password": lambda: b""},
        {"password": PASSWORD, "qwac_password": ""},
        {"password": "", "qseal_password": PASSWORD},
    ],
    ids=range(4),
)
def test_a_file_with_an_empty_password_opens_if_it_is_given(passwords, empty_p12, bank_pki, tmp_path):
    seal = {"qseal": p12(bank_pki.qseal)} if len(passwords) == 2 else {}
    for identity in (
        Identity.from_pkcs12(qwac=empty_p12, **written(seal, tmp_path), **passwords),
        Identity.from_memory(qwac=empty_p12.read_bytes(), **seal, **passwords),
    ):
        assert (identity.qwac, identity.seal is None) == (bank_pki.qwac.certificate, not seal)


def test_an_empty_file_has_the_empty_password(empty_p12, bank_pki, tmp_path):
    (tmp_path / "password").touch()
    names = {"TPPKIT_QWAC_FILE": str(empty_p12), "TPPKIT_PASSWORD_FILE": str(tmp_path / "password")}
    assert Identity.from_environment(names).qwac == bank_pki.qwac.certificate


@pytest.mark.parametrize("passwords", [{}, {"password": None}, {"password": "wrong"}])
def test_a_file_with_an_empty_password_does_not_open_without_it(passwords, empty_p12):
    with refused(FormatError, "pkcs12.unreadable"):
        Identity.from_pkcs12(qwac=empty_p12, **passwords)


def test_a_password_may_be_in_a_file_with_a_line_end(bank_pki, tmp_path):
    (tmp_path / "secret").write_bytes(PASSWORD + b"\n")
    found = {**variables(in_pkcs12(bank_pki)), "TPPKIT_PASSWORD_FILE": str(tmp_path / "secret")}
    del found["TPPKIT_PASSWORD"]
    assert Identity.from_environment(found).qwac == bank_pki.qwac.certificate


@pytest.mark.parametrize("with_key", [True, False])
def test_a_seal_may_have_a_signer_of_any_kind(with_key, bank_pki, tmp_path):
    signer = KeySigner(bank_pki.qseal.key)
    paths = written({"qwac": p12(bank_pki.qwac), "qseal": p12(bank_pki.qseal, key=with_key)}, tmp_path)
    identity = Identity.from_pkcs12(**paths, password=PASSWORD, signer=signer)
    assert identity.seal is not None
    assert identity.seal.signer is signer


@pytest.mark.parametrize("make", [in_pem, in_pkcs12], ids=["PEM", "PKCS#12"])
def test_how_to_seal_may_be_chosen(make, bank_pki):
    identity = Identity.from_memory(**make(bank_pki), profile=PROFILES["chebanca"], key_id="c-1", verify_own=True)
    seal = identity.seal
    assert seal is not None
    assert (seal.profile, seal.key_id, seal.verify_own) == (PROFILES["chebanca"], "c-1", True)


def test_an_argument_that_is_invalid_is_not_skipped(bank_pki):
    with pytest.raises(TypeError, match="profil"):
        Identity.from_memory(**without(in_pem(bank_pki), "qseal", "qseal_key"), profil=PROFILES["ing"])  # type: ignore[call-arg]


def without(parts: Mapping[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data for name, data in parts.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "code", "part"),
    [
        (lambda parts: without(parts, "qwac_key"), "identity.incomplete", "QWAC"),
        (lambda parts: without(parts, "qseal_key"), "identity.incomplete", "QSEAL"),
        (lambda parts: without(parts, "qseal"), "identity.incomplete", "seal"),
        (lambda parts: parts | {"qwac_key": b"-----BEGIN PRIVATE KEY-----\n"}, "key.unreadable", "QWAC_KEY"),
        (lambda parts: parts | {"qseal_key": b""}, "key.unreadable", "QSEAL_KEY"),
        (lambda parts: parts | {"qwac": b"none"}, "certificate.not-found", "QWAC"),
        (lambda parts: parts | {"server_anchors": b"none"}, "certificate.not-found", "SERVER_ANCHORS"),
        (lambda parts: parts | {"qwac_key": parts["qseal_key"]}, "identity.key-mismatch", None),
        (lambda parts: parts | {"qseal_key": parts["qwac_key"]}, "seal.key-mismatch", None),
        (lambda parts: parts | {"signer": KeySigner(generate_private_key(SECP256R1()))}, "identity.incomplete", None),
    ],
)  # fmt: skip
def test_an_error_names_the_part(change, code, part, bank_pki):
    with refused(TppkitError, code, match=part):
        Identity.from_memory(**change(in_pem(bank_pki)))


@pytest.mark.parametrize(
    ("make", "further", "code"),
    [
        (in_pem, {"TPPKIT_QWAC_FILE": "/somewhere"}, "identity.environment"),
        (in_pem, {"TPPKIT_QSEAL_KEY": "no base64!"}, "identity.environment"),
        (in_pem, {"TPPKIT_PASSWORD": "hunter2-", "TPPKIT_PASSWORD_FILE": "/b"}, "identity.environment"),
        (in_pem, {"TPPKIT_PASSWORD_FILE": "/nowhere/at/all"}, "file.unreadable"),
        (in_pem, {"TPPKIT_PASSWORD": "\ud800"}, "identity.environment"),  # no environment holds it
        (in_pem, {"TPPKIT_QWAC": "\ud800"}, "identity.environment"),
        (in_pkcs12, {"TPPKIT_PASSWORD": os.fsdecode(b"\xff")}, "pkcs12.unreadable"),
        (lambda pki: {}, {}, "identity.incomplete"),
    ],
)
def test_variables_that_cannot_be_used_are_reported(make, further, code, bank_pki):
    with pytest.raises(TppkitError) as caught:
        Identity.from_environment(variables(make(bank_pki)) | further)
    assert caught.value.code == code
    assert all(value not in caught.value.message for name, value in further.items() if "FILE" not in name)
    if "\ud800" in further.values():
        assert next(iter(further)) in caught.value.message


@pytest.mark.parametrize("absent", ["QWAC", "QWAC_KEY"])
def test_an_error_names_the_variable_that_is_not_set(absent, bank_pki):
    found = variables(in_pem(bank_pki))
    del found[f"TPPKIT_{absent}"]
    with refused(ConfigurationError, "identity.incomplete", match=f"neither TPPKIT_{absent} nor TPPKIT_{absent}_FILE"):
        Identity.from_environment(found)


@pytest.mark.parametrize("password", ["p\xe4ss".encode("latin-1"), "p\xe4ss".encode(), b"\xff\xfe"])
def test_a_password_may_be_any_bytes_that_a_variable_holds(password, bank_pki):
    encrypted = bank_pki.qwac.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    found = variables(in_pem(bank_pki) | {"qwac_key": encrypted}) | {"TPPKIT_PASSWORD": os.fsdecode(password)}
    found["TPPKIT_QWAC"] = (
        os.fsdecode("subject: M\xfcller\n".encode("latin-1")) + found["TPPKIT_QWAC"]
    )  # as may text beside PEM
    assert Identity.from_environment(found).qwac == bank_pki.qwac.certificate


def test_no_secret_is_shown(bank_pki, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    identity = Identity.from_pkcs12(**written(in_pkcs12(bank_pki), tmp_path))
    texts = [repr(identity), repr(vars(identity)), repr(identity.seal), repr(vars(identity.seal))]
    for spoilt in (
        {"password": b"wrong secret"},
        {"qwac": p12(bank_pki.qwac)[:-9]},
        {"qwac": key_pem(bank_pki.qwac.key)},
    ):
        with pytest.raises(TppkitError) as caught:
            Identity.from_memory(**in_pkcs12(bank_pki) | spoilt)
        texts += ["".join(traceback.format_exception(caught.value)), repr(vars(caught.value))]
    shown = "\n".join([*texts, caplog.text])
    body = key_pem(bank_pki.qwac.key).decode().splitlines()[1]
    assert [secret for secret in (PASSWORD.decode(), "wrong secret", body) if secret in shown] == []
