"""Keys in a device: SoftHSM2, a real PKCS#11 library with a token of its own for these tests."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pkcs11
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pkcs11 import Attribute, KeyType, ObjectClass, TokenFlag

from refusals import refused
from reported import reported
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.httpsig import Pkcs11Signer
from tppkit.httpsig.algorithms import ALGORITHMS, make_verifiers, verify_signature
from tppkit.seals import Message, Seal, sign_request, verify_request
from tppkit.testpki import Pki, key_pem

PIN = "correct-1234"
LIBRARIES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/*/softhsm/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
)


def library() -> Path:
    found = [path for pattern in LIBRARIES for path in sorted(Path("/").glob(pattern[1:]))]
    if not found or shutil.which("softhsm2-util") is None:
        pytest.skip("needs libsofthsm2.so and softhsm2-util; install Debian's package softhsm2")
    return found[0]


def softhsm(*arguments: str) -> None:
    subprocess.run(["softhsm2-util", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="session")
def token(tmp_path_factory: pytest.TempPathFactory, pki: Pki) -> Iterator[Path]:
    """The library, with a token `seals` in it: keys made in the device, and the seal's key of the test PKI."""
    module, folder = library(), tmp_path_factory.mktemp("softhsm")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(f"directories.tokendir = {folder / 'tokens'}\nlog.level = ERROR\n")
    before = os.environ.get("SOFTHSM2_CONF")
    os.environ["SOFTHSM2_CONF"] = str(folder / "softhsm2.conf")
    for label in ("seals", "same", "same"):
        softhsm("--init-token", "--free", "--label", label, "--so-pin", "so-5678", "--pin", PIN)
    (folder / "key.pem").write_bytes(key_pem(pki.qseal.key))
    softhsm("--import", str(folder / "key.pem"), "--token", "seals", "--label", "qseal", "--id", "0a", "--pin", PIN)
    try:
        make_keys(module, pki)
        yield module
    finally:
        pkcs11.unload(str(module))
        if before is None:
            del os.environ["SOFTHSM2_CONF"]
        else:
            os.environ["SOFTHSM2_CONF"] = before


def make_keys(module: Path, pki: Pki) -> None:
    with pkcs11.lib(str(module)).get_token(token_label="seals").open(rw=True, user_pin=PIN) as session:
        session.generate_keypair(KeyType.RSA, 2048, id=b"\x01", label="rsa", store=True)
        session.generate_keypair(KeyType.RSA, 1024, id=b"\x06", label="weak", store=True)
        always = {Attribute.ALWAYS_AUTHENTICATE: True}
        session.generate_keypair(KeyType.RSA, 2048, id=b"\x05", label="always", store=True, private_template=always)
        for label, curve, number in (("p256", "secp256r1", 2), ("p384", "secp384r1", 3), ("p521", "secp521r1", 4)):
            parameters = {Attribute.EC_PARAMS: pkcs11.util.ec.encode_named_curve_parameters(curve)}
            domain = session.create_domain_parameters(KeyType.EC, parameters, local=True)
            domain.generate_keypair(id=bytes([number]), label=label, store=True)
        for label, number in (("same", 7), ("same", 8), ("lonely", 9), ("certified", 10)):
            parameters = {Attribute.EC_PARAMS: pkcs11.util.ec.encode_named_curve_parameters("secp256r1")}
            domain = session.create_domain_parameters(KeyType.EC, parameters, local=True)
            identity = bytes([16 + number])
            public, _ = domain.generate_keypair(id=identity, label=label, store=True)
            if label in ("lonely", "certified"):
                public.destroy()
        edwards = {Attribute.EC_PARAMS: pkcs11.util.ec.encode_named_curve_parameters("1.3.101.112")}
        domain = session.create_domain_parameters(KeyType.EC_EDWARDS, edwards, local=True)
        generate = pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN
        domain.generate_keypair(mechanism=generate, id=b"\x0b", label="ed25519", store=True)
        (seal,) = session.get_objects({Attribute.CLASS: ObjectClass.PUBLIC_KEY, Attribute.LABEL: "qseal"})
        seal.destroy()  # many devices are given the private key and its certificate only
        session.create_object(
            {
                Attribute.CLASS: ObjectClass.CERTIFICATE,
                Attribute.CERTIFICATE_TYPE: pkcs11.CertificateType.X_509,
                Attribute.TOKEN: True,
                Attribute.ID: b"\x0a",
                Attribute.SUBJECT: pki.qseal.certificate.subject_der,
                Attribute.VALUE: pki.qseal.certificate.der,
            }
        )


def signer(module: Path, label: str | None = "rsa", **options: Any) -> Pkcs11Signer:
    return Pkcs11Signer(module, **{"token": "seals", "pin": lambda: PIN, "label": label, **options})


def require_signature(signer: Any, signature: bytes, data: bytes) -> None:
    verify_signature(make_verifiers(signer.public_key, names=ALGORITHMS), signer.algorithm.name, signature, data)


LABELS = {"rsa": "rsa", "P-256": "p256", "P-384": "p384", "P-521": "p521", "ed25519": "ed25519"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_in_a_device_signs_with_every_algorithm_of_its_kind(token, algorithm):
    device = signer(token, LABELS[ALGORITHMS[algorithm].key], algorithm=algorithm)
    for data in (b"", b"(request-target): get /", bytes(100_000)):
        require_signature(device, device.sign(data), data)


def test_a_devices_key_has_its_usual_algorithm_and_is_found_by_its_id(token):
    for label, usual in (("rsa", "rsa-sha256"), ("p256", "ecdsa-sha256"), ("p384", "ecdsa-sha384")):
        assert signer(token, label).algorithm.name == usual
    assert isinstance(signer(token, None, key_id=b"\x01").public_key, rsa.RSAPublicKey)
    assert isinstance(signer(token, None, key_id=b"\x02").public_key, ec.EllipticCurvePublicKey)


def test_a_device_signs_without_blocking_the_event_loop_and_for_many_threads(token):
    device = signer(token, "p256")
    require_signature(device, asyncio.run(device.sign_async(b"x")), b"x")
    devices = (signer(token, "rsa"), signer(token, "p256"))

    def work(number: int) -> None:
        device, data = devices[number % 2], str(number).encode()
        require_signature(device, device.sign(data), data)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(200)))


def test_a_seal_is_made_with_a_key_in_a_device(token, pki, policy):
    seal = Seal(pki.qseal.certificate, signer(token, "qseal"))
    sent = sign_request(Message("GET", "/", (("X-Request-ID", "a"),)), seal=seal)
    verified = verify_request(sent, qwac=None, at=pki.qseal.certificate.not_before, policy=policy)
    assert verified.seal == pki.qseal.certificate


def test_a_dropped_session_is_opened_again_and_a_key_that_wants_its_pin_every_time_gets_it(token):
    asked = []

    def pin() -> str:
        asked.append(threading.current_thread())
        return PIN

    device = signer(token, "p256", pin=pin)
    pkcs11.lib(str(token)).reinitialize()  # what a restart of the device leaves: no session, nobody logged in
    asked.clear()
    require_signature(device, device.sign(b"after"), b"after")
    assert len(asked) == 1
    device = signer(token, "always", pin=pin)
    asked.clear()
    for _ in range(2):
        require_signature(device, device.sign(b"x"), b"x")
    assert len(asked) == 2


def test_a_log_out_by_another_part_of_the_program_is_repaired(token):
    pkcs11.lib(str(token)).reinitialize()
    device = signer(token, "p256")
    with pytest.raises(pkcs11.UserAlreadyLoggedIn):
        pkcs11.lib(str(token)).get_token(token_label="seals").open(user_pin=PIN)
    device._key.session.close()  # logs out, as the end of any session that logged in does
    require_signature(device, device.sign(b"after"), b"after")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"label": "nobody"}, "signer.key-not-found"),
        ({"label": "same"}, "signer.key-not-found"),
        ({"label": None}, "signer.key-not-found"),
        ({"label": "lonely"}, "signer.key-not-found"),
        ({"token": "nowhere"}, "signer.key-not-found"),
        ({"token": "same"}, "signer.key-not-found"),
        ({"label": "weak"}, "key.weak"),
        ({"label": "p521", "algorithm": "ecdsa-sha384"}, "signature.algorithm"),
        ({"label": "rsa", "algorithm": "ecdsa-sha256"}, "signature.algorithm"),
    ],
)
def test_what_a_device_does_not_have_is_reported(token, options, code):
    with refused((ConfigurationError, FormatError), code):
        signer(token, **options)


@pytest.mark.parametrize("pin", ["wrong-text", lambda: "wrong-asked"], ids=["text", "asked for"])
def test_a_wrong_pin_is_reported_without_showing_it(token, pin):
    pkcs11.lib(str(token)).reinitialize()  # nobody is logged in
    require_signature(device := signer(token, pin=PIN), device.sign(b"x"), b"x")
    pkcs11.lib(str(token)).reinitialize()
    with pytest.raises(ConfigurationError) as caught:
        signer(token, pin=pin)
    assert caught.value.code == "signer.pin"
    assert "wrong-t" not in repr((caught.value, caught.value.__cause__, caught.value.__context__))


@pytest.mark.parametrize("pin", [None, "", PIN.encode()])
def test_a_pin_that_is_invalid_is_reported_and_not_tried(token, pin):
    pkcs11.lib(str(token)).reinitialize()
    with refused(ConfigurationError, "signer.pin"):
        signer(token, pin=lambda: pin)
    device = signer(token)
    require_signature(device, device.sign(b"x"), b"x")


@pytest.mark.parametrize("label", ["p256", "always"])
def test_a_refused_pin_is_not_tried_again(token, label):
    pins = [PIN]
    asked: list[str] = []

    def pin() -> str:
        asked.append(pins[0])
        return pins[0]

    pkcs11.lib(str(token)).reinitialize()
    device = signer(token, label, pin=pin)
    require_signature(device, device.sign(b"x"), b"x")
    if label == "p256":
        pkcs11.lib(str(token)).reinitialize()
    pins[0] = f"wrong-{label}"
    asked.clear()
    for _ in range(3):
        with refused(ConfigurationError, "signer.pin"):
            device.sign(b"x")
    assert asked == [f"wrong-{label}"]


def is_logged_in(module: Path) -> bool:
    """Private keys are shown to who is logged in only."""
    with pkcs11.lib(str(module)).get_token(token_label="seals").open() as session:
        return any(session.get_objects({Attribute.CLASS: ObjectClass.PRIVATE_KEY}))


def has_tried_a_wrong_pin(module: Path) -> bool:
    """The device remembers it until the right one comes."""
    return bool(pkcs11.lib(str(module)).get_token(token_label="seals").flags & TokenFlag.USER_PIN_COUNT_LOW)


def test_a_closed_signer_is_logged_out_and_logs_in_again_to_sign(token):
    pkcs11.lib(str(token)).reinitialize()
    with signer(token) as device:
        require_signature(device, device.sign(b"x"), b"x")
        assert is_logged_in(token)
    assert not is_logged_in(token)
    require_signature(device, device.sign(b"x"), b"x")
    device.close()
    device.close()
    assert not is_logged_in(token)


@pytest.mark.parametrize("options", [{"label": "lonely"}, {"label": "weak"}, {"algorithm": "ecdsa-sha256"}])
def test_a_pin_is_not_shown_and_a_signer_that_cannot_be_made_leaves_no_session_logged_in(token, options):
    pkcs11.lib(str(token)).reinitialize()
    with pytest.raises((ConfigurationError, FormatError)):
        signer(token, **options)
    assert not is_logged_in(token)
    device = signer(token)
    assert PIN not in repr(device)
    assert PIN not in repr(vars(device))


def test_a_refused_pin_is_not_given_again_by_any_signer_of_the_process(token):
    pkcs11.lib(str(token)).reinitialize()
    for first in (True, False):
        with refused(ConfigurationError, "signer.pin"):
            signer(token, pin=lambda: "wrong-again")
        assert has_tried_a_wrong_pin(token) is first
        signer(token).close()
        assert not has_tried_a_wrong_pin(token)
    with pytest.raises(ConfigurationError):
        signer(token, pin=lambda: "wrong-in-another-way")
    assert has_tried_a_wrong_pin(token)


def test_a_file_that_is_not_a_pkcs11_library_is_reported(tmp_path):
    (tmp_path / "module.so").write_bytes(b"not a library")
    for path in (tmp_path / "module.so", tmp_path / "nowhere.so"):
        with refused(ConfigurationError, "signer.module"):
            Pkcs11Signer(path, token="seals", pin=lambda: PIN, label="rsa")


def test_a_device_that_is_unavailable_is_reported_and_used_again_when_it_is_back(token):
    device = signer(token)
    tokens = Path(os.environ["SOFTHSM2_CONF"]).parent / "tokens"
    tokens.rename(tokens.with_name("elsewhere"))
    try:
        tokens.mkdir()
        pkcs11.lib(str(token)).reinitialize()
        with refused(TransportError, "signer.unavailable"):
            device.sign(b"x")
    finally:
        shutil.rmtree(tokens)
        tokens.with_name("elsewhere").rename(tokens)
        pkcs11.lib(str(token)).reinitialize()
    require_signature(device, device.sign(b"back"), b"back")


def failing_pin() -> str:
    pin = "wrong-9876"
    raise RuntimeError(f"a store of {len(pin)}")


@pytest.mark.parametrize("pin", ["wrong-9876", lambda: "wrong-9876", lambda: ["wrong-9876"], failing_pin])
def test_no_pin_is_among_the_variables_of_an_error(pin, token):
    pkcs11.lib(str(token)).reinitialize()  # nobody is logged in
    with pytest.raises((ConfigurationError, RuntimeError)) as error:
        Pkcs11Signer(token, token="seals", label="qseal", pin=pin)
    assert not [line for line in reported(error.value) if "wrong-9876" in line]
