"""No error of a loader has a secret among the local variables of its frames, which tools that report errors send."""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from reported import reported
from tppkit._clock import utc_now
from tppkit._locals import without_locals
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    load_callback_key,
    sign_callback,
    verify_callback,
)
from tppkit.certificates import EidasCertificate, check_pair, load_certificates
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.sources import read_sources
from tppkit.client import AsyncGatewayClient, AsyncLegacyClient, GatewayClient, Identity, LegacyClient, VaultClient
from tppkit.client.credentials import ApiKeyCredentials, BasicCredentials
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import ConfigurationError
from tppkit.httpsig import KeySigner, load_private_key, parse_pkcs12
from tppkit.inbox.store import InboxStore, MemoryStore
from tppkit.message import Message
from tppkit.sandbox.database import Database
from tppkit.testpki import Pki
from tppkit.testpki.keys import load_key
from tppkit.trust import load_anchors
from tppkit.web.replay_stores.table import TableReplayStore

PASSWORD, WRONG, API_KEY, DATABASE = "p4ss-of-the-key", "another-p4ss", "k3y-of-the-api", "p4ss-of-the-database"
TOKEN, NAME = "t0ken-that-is-malformed", "Vardenis Pavardenis"
URL = f"postgresql+psycopg://user:{DATABASE}@127.0.0.1:9/tpp"


class Files:
    """What the loaders get: files in a folder, and the texts that no report may have."""

    def __init__(self, folder: Path, pki: Pki) -> None:
        self.folder = folder
        key, certificate = pki.qwac.key, pki.qwac.certificate
        self.pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        self.der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        locked = BestAvailableEncryption(PASSWORD.encode())
        self.locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
        self.p12 = pkcs12.serialize_key_and_certificates(b"x", key, certificate.x509, None, locked)
        self.certificate = certificate.x509.public_bytes(Encoding.PEM)
        self.half = self.pem[: len(self.pem) * 2 // 3]
        self.damaged = self.pem + self.certificate.replace(b"MII", b"!!!", 1)
        scalar = key.private_numbers().private_value.to_bytes(32, "big")
        self.secrets = [
            PASSWORD,
            WRONG,
            API_KEY,
            DATABASE,
            TOKEN,
            NAME,
            *forms(scalar),
            *key_lines(self.pem, self.locked),
        ]

    def path(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def identity(self, key: bytes, **options: Any) -> Identity:
        return Identity.from_files(
            qwac=self.path("qwac.pem", self.certificate), qwac_key=self.path("qwac.key", key), **options
        )

    def reload(self, key: bytes) -> None:
        identity = self.identity(self.pem)
        self.path("qwac.key", key)
        identity.reload(at=utc_now())

    def environment(self, key: str, **more: str) -> None:
        Identity.from_environment(
            {"TPPKIT_QWAC": self.certificate.decode(), "TPPKIT_QWAC_KEY": key, "TPPKIT_PASSWORD": WRONG, **more}
        )


def forms(secret: bytes) -> Iterator[str]:
    """How a value may be shown: bytes, hexadecimal, base64."""
    yield repr(secret[4:20])[2:-1]
    yield secret[4:20].hex()
    yield base64.b64encode(secret[3:18]).decode()


def key_lines(*pems: bytes) -> Iterator[str]:
    for pem in pems:
        yield pem.split(b"\n")[1][20:50].decode()


@pytest.fixture
def files(bank_pki: Pki, tmp_path: Path) -> Files:
    return Files(tmp_path, bank_pki)


KEY, ADDRESS, OTHER = ec.derive_private_key(4711, ec.SECP256R1()), "https://tpp.example/cb/", f'{{"name":"{NAME}"}}'
RECEIVER = CallbackReceiver(
    [CallbackAddress(ADDRESS, CallbackKind.ACCESS)], keys=[CallbackKey("live", KEY.public_key())]
)


def posted(body: str, *, signed: str | None = None) -> Message:
    covered = (body if signed is None else signed).encode()
    headers = sign_callback(KEY, request_id="r-1", method="POST", url=ADDRESS, body=covered)
    return Message("POST", "/cb/", headers, body.encode())


def unreadable(inbox: Inbox) -> None:
    inbox.accept(posted(OTHER), at=utc_now())
    inbox.callback_of(inbox.failed()[0].entry)


def fail() -> str:
    pin = WRONG
    raise RuntimeError(f"no {len(pin)}")


# fmt: off
LOADERS: dict[str, Callable[[Files], Any]] = {
    "a callback key that is a private key": lambda f: load_callback_key(f.pem, name="live"),
    "a callback key, half a private key": lambda f: load_callback_key(f.half, name="live"),
    "a key of a test PKI, half": lambda f: load_key(f.half),
    "a signer of bytes": lambda f: KeySigner(f.pem),  # type: ignore[arg-type]
    "from_files, half a key": lambda f: f.identity(f.half),
    "from_files, half a DER key": lambda f: f.identity(f.der[:-40]),
    "from_files, wrong password": lambda f: f.identity(f.locked, password=WRONG),
    "from_files, password function": lambda f: f.identity(f.locked, password=lambda: WRONG),
    "from_files, failing password function": lambda f: f.identity(f.locked, password=fail),
    "from_files, password of another type": lambda f: f.identity(f.locked, password=[WRONG]),
    "from_files, key as path": lambda f: Identity.from_files(qwac=f.path("q", f.certificate), qwac_key=f.pem.decode()),
    "reload, half a key": lambda f: f.reload(f.half),
    "reload, wrong password": lambda f: f.reload(f.locked),
    "from_pkcs12": lambda f: Identity.from_pkcs12(qwac=f.path("q.p12", f.p12), password=WRONG),
    "from_pkcs12, damaged": lambda f: Identity.from_pkcs12(qwac=f.path("q.p12", f.p12[:-9]), password=PASSWORD),
    "from_environment, half a key": lambda f: f.environment(f.half.decode()),
    "from_environment, no base64": lambda f: f.environment(base64.b64encode(f.der).decode() + "!"),
    "from_environment, wrong password": lambda f: f.environment(f.locked.decode()),
    "from_environment, twice": lambda f: f.environment(f.pem.decode(), TPPKIT_QWAC_KEY_FILE="x"),
    "from_memory, half a key": lambda f: Identity.from_memory(qwac=f.certificate, qwac_key=f.half),
    "from_memory, text": lambda f: Identity.from_memory(qwac=f.certificate, qwac_key=f.pem.decode()),
    "from_memory, misspelt": lambda f: Identity.from_memory(qwac=f.certificate, qwac_kee=f.pem),
    "from_memory, bundle": lambda f: Identity.from_memory(qwac=f.damaged, qwac_key=f.pem),
    "load_private_key, half": lambda f: load_private_key(f.half),
    "load_private_key, wrong password": lambda f: load_private_key(f.locked, password=WRONG),
    "load_private_key, text": lambda f: load_private_key(f.pem.decode()),
    "parse_pkcs12, wrong password": lambda f: parse_pkcs12(f.p12, password=WRONG),
    "parse_pkcs12, damaged": lambda f: parse_pkcs12(f.p12[:-9], password=PASSWORD),
    "read_sources, PKCS#12": lambda f: read_sources(f.p12, password=WRONG),
    "read_sources, bundle": lambda f: read_sources(f.damaged),
    "from_pem, bundle": lambda f: EidasCertificate.from_pem(f.damaged),
    "from_der, key": lambda f: EidasCertificate.from_der(f.der),
    "from_der, key as PEM": lambda f: EidasCertificate.from_der(f.pem),
    "from_der of a request, key": lambda f: EidasRequest.from_der(f.der),
    "check_pair, keys": lambda f: check_pair(f.der, f.pem),  # type: ignore[arg-type]
    "load_certificates, PKCS#12": lambda f: load_certificates(f.path("q.p12", f.p12), password=WRONG),
    "load_certificates, key": lambda f: load_certificates(f.path("q.key", f.pem)),
    "load_anchors, bundle": lambda f: load_anchors(f.path("q.pem", f.damaged)),
    "server anchors, key": lambda f: NoCertificate(server_anchors=f.pem),
    "verify_callback, other key": lambda f: verify_callback(posted(OTHER, signed="{}"), at=utc_now(), receiver=RECEIVER),
    "verify_callback, no object": lambda f: verify_callback(posted(NAME), at=utc_now(), receiver=RECEIVER),
    "verify_callback, unreadable": lambda f: verify_callback(posted(OTHER), at=utc_now(), receiver=RECEIVER),
    "accept": lambda f: Inbox(RECEIVER, MemoryStore()).accept(posted(OTHER, signed="{}"), at=utc_now()),
    "callback_of, unreadable": lambda f: unreadable(Inbox(RECEIVER, MemoryStore())),
    "ApiKeyCredentials": lambda f: ApiKeyCredentials(f"{API_KEY}\n"),
    "BasicCredentials": lambda f: BasicCredentials(f"{API_KEY}:"),
    "LegacyClient": lambda f: LegacyClient("https://localhost", api_key=f"{API_KEY}\n"),
    "LegacyClient, address": lambda f: LegacyClient("http://localhost", api_key=API_KEY),
    "AsyncLegacyClient": lambda f: AsyncLegacyClient("https://localhost", api_key=f"{API_KEY}\n"),
    "GatewayClient": lambda f: GatewayClient("https://localhost", api_key=f"{API_KEY}\n"),
    "GatewayClient, misspelt": lambda f: GatewayClient("https://localhost", api_kee=API_KEY),
    "AsyncGatewayClient": lambda f: AsyncGatewayClient("https://localhost", api_key=f"{API_KEY}\n"),
    "VaultClient, address": lambda f: VaultClient("http://localhost", api_key=API_KEY),
    "InboxStore, port": lambda f: InboxStore(URL.replace(":9/", ":nine/")),
    "InboxStore, dialect": lambda f: InboxStore(URL.replace("postgresql+psycopg", "oracle")),
    "InboxStore, argument": lambda f: InboxStore(f"{URL}?connect_timeout=soon").create_tables(),
    "InboxStore, no server": lambda f: InboxStore(URL).create_tables(),
    "InboxStore, no server for a call": lambda f: InboxStore(URL).failed("callback:live"),
    "TableReplayStore, port": lambda f: TableReplayStore(URL.replace(":9/", ":nine/")),
    "TableReplayStore, dialect": lambda f: TableReplayStore(URL.replace("postgresql+psycopg", "mysql")),
    "TableReplayStore, no server": lambda f: TableReplayStore(URL, wait_s=1),
    "sandbox, no server": lambda f: Database(URL),
    "sandbox, port": lambda f: Database(URL.replace(":9/", ":nine/")),
    **{
        f"{name}, {kind.__name__}": lambda f, call=call, kind=kind: asked(kind, call)
        for name, call in {
            "request_access": lambda client: client.request_access("ais", "+37060000000", token=TOKEN),
            "balance": lambda client: client.balance(TOKEN),
            "transactions": lambda client: client.transactions(token=TOKEN),
            "pay": lambda client: client.pay(TOKEN, None, uuid="u" * 20),
        }.items()
        for kind in (LegacyClient, AsyncLegacyClient)
    },
}
# fmt: on


def asked(kind: Any, call: Callable[[Any], Any]) -> None:
    client = kind("https://localhost", api_key=API_KEY)
    answer = call(client)
    if inspect.isawaitable(answer):
        asyncio.run(answer)


@pytest.mark.parametrize("loader", LOADERS)
def test_a_failing_loader_reports_no_secret(loader, files):
    error = caught(lambda: LOADERS[loader](files))
    assert not [line for line in reported(error) if any(secret in line for secret in files.secrets)]


def caught(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except Exception as e:  # noqa: BLE001  # of any class
        return e
    raise AssertionError("nothing was raised")


def test_a_failing_loader_ends_no_suspended_generator_and_makes_no_cycle():
    kept: list[Exception] = []

    def suspended() -> Iterator[int]:
        try:
            fail()
        except RuntimeError as e:
            kept.append(e)
        yield 1
        yield 2

    def password() -> str:
        raise ValueError from kept[0]

    def raise_kept() -> None:
        raise kept[0]

    rows = suspended()
    next(rows)
    caught(lambda: load_private_key(b"", password=password))
    caught(without_locals(password))
    caught(without_locals(raise_kept))
    assert next(rows) == 2
    own = ConfigurationError("identity.tls", "own")

    def raise_own() -> None:
        raise own

    try:
        raise ValueError from own
    except ValueError:
        caught(without_locals(raise_own))
    assert own.__context__ is None


def test_a_cause_that_a_function_returned_keeps_no_variable():
    def failed() -> RuntimeError:
        try:
            fail()
        except RuntimeError as e:
            return e
        raise AssertionError

    def load() -> None:
        raise ConfigurationError("identity.tls", "own") from failed()

    cause = caught(without_locals(load)).__cause__
    assert cause is not None
    assert [frame.f_locals for frame, _ in walk_tb(cause.__traceback__)] == [{}, {}]
