"""Keys in AWS KMS: moto's server speaks the service's protocol over HTTP on loopback; one of our own sends its errors."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from moto.server import ThreadedMotoServer

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.httpsig import KmsSigner
from tppkit.httpsig.algorithms import ALGORITHMS, hash_data, make_verifiers, verify_signature

pytestmark = pytest.mark.slow

ONCE = {"mode": "standard", "total_max_attempts": 1}


def client(url: str, *, read_timeout: float = 60.0, attempts: int = 1) -> Any:
    return boto3.client(
        "kms", endpoint_url=url, region_name="eu-central-1", aws_access_key_id="test", aws_secret_access_key="test",
        config=Config(read_timeout=read_timeout, connect_timeout=60, retries={**ONCE, "total_max_attempts": attempts}),
    )  # fmt: skip


@pytest.fixture(scope="module")
def kms() -> Iterator[Any]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield client(f"http://{host}:{port}")
    finally:
        server.stop()


def make_key(kms: Any, spec: str, usage: str = "SIGN_VERIFY") -> str:
    found: str = kms.create_key(KeySpec=spec, KeyUsage=usage)["KeyMetadata"]["KeyId"]
    return found


def require_signature(signer: KmsSigner, signature: bytes, data: bytes) -> None:
    verify_signature(make_verifiers(signer.public_key, names=ALGORITHMS), signer.algorithm.name, signature, data)


@contextmanager
def asked(kms: Any) -> Iterator[list[dict[str, Any]]]:
    """What the client sends to Sign."""
    seen: list[dict[str, Any]] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        seen.append(dict(params))

    kms.meta.events.register("before-parameter-build.kms.Sign", note)
    try:
        yield seen
    finally:
        kms.meta.events.unregister("before-parameter-build.kms.Sign", note)


@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [
        ("RSA_2048", "rsa-sha256"),
        ("RSA_2048", "rsa-sha512"),
        ("ECC_NIST_P256", "ecdsa-sha256"),
        ("ECC_NIST_P256", "ecdsa-p256-sha256"),
        ("ECC_NIST_P384", "ecdsa-sha384"),
        ("ECC_NIST_P384", "ecdsa-p384-sha384"),
    ],
)
def test_a_key_in_the_service_signs_with_every_algorithm_of_its_kind(kms, spec, algorithm):
    signer = KmsSigner(make_key(kms, spec), client=kms, algorithm=algorithm)
    require_signature(signer, signer.sign(b"(request-target): get /"), b"(request-target): get /")


@pytest.mark.parametrize("algorithm", ["rsa-pss-sha256", "rsa-pss-sha512"])
def test_a_key_in_the_service_signs_with_pss(kms, algorithm):
    signer = KmsSigner(make_key(kms, "RSA_2048"), client=kms, algorithm=algorithm)
    assert isinstance(signer.public_key, rsa.RSAPublicKey)
    # moto takes the longest salt; the service one as long as the hash, as its documentation says.
    salted = padding.PSS(padding.MGF1(signer.algorithm.hash), padding.PSS.AUTO)
    signer.public_key.verify(signer.sign(b"x"), b"x", salted, signer.algorithm.hash)


def test_the_service_signs_without_blocking_the_event_loop(kms):
    signer = KmsSigner(make_key(kms, "ECC_NIST_P256"), client=kms)
    require_signature(signer, asyncio.run(signer.sign_async(b"x")), b"x")


@pytest.mark.parametrize(("size", "kind"), [(4096, "RAW"), (4097, "DIGEST"), (0, "DIGEST")])
def test_up_to_4096_bytes_are_sent_as_they_are_and_more_or_none_as_their_hash(size, kind, kms):
    signer, data = KmsSigner(make_key(kms, "ECC_NIST_P384"), client=kms), bytes(size)
    with asked(kms) as seen:
        signature = signer.sign(data)
    sent = data if kind == "RAW" else hash_data(data, signer.algorithm.hash)
    assert (seen[0]["MessageType"], seen[0]["Message"]) == (kind, sent)
    # moto hashes a DIGEST once more; the service does not.
    require_signature(signer, signature, sent)


def test_an_alias_that_is_pointed_elsewhere_does_not_change_the_key(kms):
    kms.create_alias(AliasName="alias/seal", TargetKeyId=make_key(kms, "ECC_NIST_P256"))
    signer = KmsSigner("alias/seal", client=kms)
    kms.update_alias(AliasName="alias/seal", TargetKeyId=make_key(kms, "ECC_NIST_P256"))
    require_signature(signer, signer.sign(b"x"), b"x")


@pytest.mark.parametrize(
    ("spec", "algorithm", "code"),
    [
        ("ECC_NIST_P521", None, "key.unsupported"),
        ("ECC_NIST_P256", "rsa-sha256", "signature.algorithm"),
        ("ECC_NIST_P256", "ecdsa-p256-sha512", "signature.algorithm"),
    ],
)
def test_a_key_of_another_kind_is_refused(kms, spec, algorithm, code):
    with refused(FormatError, code):
        KmsSigner(make_key(kms, spec), client=kms, algorithm=algorithm)


@pytest.mark.parametrize("key_id", ["", None])
def test_a_key_that_the_service_does_not_have_or_that_can_be_none_is_a_wrong_setting(kms, key_id):
    with refused(ConfigurationError, "signer.refused"):
        KmsSigner(key_id, client=kms)
    with refused(ConfigurationError, "signer.key-not-found", match="alias/nobody"):
        KmsSigner("alias/nobody", client=kms)


class Answering(BaseHTTPRequestHandler):
    """Answers with the server's `error` (status, code), or not at all when there is none."""

    def do_POST(self) -> None:
        self.server.asked += 1  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.error is None:  # type: ignore[attr-defined]
            self.server.end.wait(20)  # type: ignore[attr-defined]
            return
        status, code = self.server.error  # type: ignore[attr-defined]
        body = json.dumps({"__type": code, "message": "chosen by the test"}).encode() if code else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def answering(error: tuple[int, str] | None) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.error, server.asked, server.end = error, 0, threading.Event()
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server
    finally:
        server.end.set()
        server.shutdown()
        server.server_close()
        serving.join()


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        ((400, "ThrottlingException"), TransportError, "signer.throttled"),
        ((500, "KMSInternalException"), TransportError, "signer.unavailable"),
        ((503, ""), TransportError, "signer.unavailable"),
        ((400, "AccessDeniedException"), ConfigurationError, "signer.refused"),
        ((400, "DisabledException"), ConfigurationError, "signer.refused"),
        ((400, "InvalidKeyUsageException"), ConfigurationError, "signer.refused"),
        ((400, "NotFoundException"), ConfigurationError, "signer.key-not-found"),
        (None, TransportError, "signer.timeout"),
    ],
)
def test_an_error_of_the_service_is_reported_by_its_kind(error, kind, code):
    limit = {"read_timeout": 0.3} if error is None else {}
    with answering(error) as server, refused(kind, code):
        KmsSigner("seal", client=client(f"http://127.0.0.1:{server.server_port}", **limit))


def test_a_service_that_is_not_running_is_reported():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with refused(TransportError, "signer.unavailable"):
            KmsSigner("seal", client=client(f"http://127.0.0.1:{closed.getsockname()[1]}"))


def test_the_client_made_here_tries_again_and_not_for_ever(monkeypatch):
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }.items():
        monkeypatch.setenv(name, value)
    with answering((400, "ThrottlingException")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(TransportError) as caught:
            KmsSigner("seal", attempts=2)
    assert (caught.value.code, server.asked) == ("signer.throttled", 2)


def test_settings_that_are_missing_are_reported(monkeypatch, tmp_path):
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with refused(ConfigurationError, "signer.refused"):
        KmsSigner("seal")
