"""Who we are to a bank: keys that fit, one organisation, and no key left on the disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from rogue_bank import ask, http, rogue_bank, server_context

from refusals import refused
from tppkit._clock import utc_now
from tppkit.certificates import EidasCertificate
from tppkit.client import Identity
from tppkit.client.identity_material import close_signer
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.httpsig import Signer
from tppkit.seals import KeySigner, Seal
from tppkit.testpki import Issued, Pki, certificate_pem, key_pem, make_provider
from tppkit.trust import Reloader


def seal_of(issued: Issued) -> Seal:
    return Seal(issued.certificate, KeySigner(issued.key))


def files(folder: Path) -> dict[str, Path]:
    names = {"qwac": "qwac-chain.pem", "qwac_key": "qwac.key", "qseal": "qseal.pem", "qseal_key": "qseal.key"}
    return {name: folder / file for name, file in names.items()} | {"server_anchors": folder / "root.pem"}


OTHER = make_provider(organization_identifier="PSDDE-BAFIN-999999")
UNFIT: dict[str, tuple[Callable[[Pki], Any], str, str | None]] = {
    "a seal of another organisation": (
        lambda pki: Identity(*certified(pki.qwac), seal=seal_of(pki.issue_qseal(OTHER, label="other"))),
        "identity.other-organisation", "PSDDE-BAFIN-999999",
    ),
    "a certificate of a seal": (lambda pki: Identity(*certified(pki.qseal)), "identity.qc-type", "eseal"),
    "no server anchors": (lambda pki: Identity(*certified(pki.qwac), server_anchors=()), "trust.no-anchors", None),
}  # fmt: skip


def certified(issued: Issued) -> tuple[EidasCertificate, Any]:
    return issued.certificate, issued.key


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_make_an_identity_is_refused(name, bank_pki):
    make, code, text = UNFIT[name]
    with refused(ConfigurationError, code, match=text):
        make(bank_pki)


@pytest.mark.parametrize(
    ("part", "password", "code"),
    [
        *(("qwac_key", password, "key.unreadable") for password in (None, b"wrong", b"")),
        *((name, None, "file.unreadable") for name in ("qwac", "qseal", "qseal_key", "server_anchors")),
        ("qwac_key", b"any", "file.unreadable"),
    ],
)
def test_a_file_that_is_absent_or_a_key_without_its_password_is_not_read(
    part, password, code, bank_pki_folder, bank_pki, tmp_path
):
    if code == "key.unreadable":
        encryption = BestAvailableEncryption(b"correct horse")
        (tmp_path / "file").write_bytes(bank_pki.qwac.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    with refused(TppkitError, code):
        Identity.from_files(**files(bank_pki_folder) | {part: tmp_path / "file"}, password=password)


def test_given_server_anchors_replace_those_of_the_system(identity, bank_pki):
    assert identity.tls_context.get_ca_certs(binary_form=True) == [bank_pki.root.certificate.der]


@pytest.mark.parametrize(
    ("of", "days", "options", "code"),
    [
        ("not_before", 0, {}, None),
        ("not_before", -1, {}, "identity.not-yet-valid"),
        ("not_after", -20.05, {}, "identity.expires"),
        ("not_after", -20.05, {"warn_days": 10}, None),
        ("not_before", 1000, {}, "identity.expired"),
    ],
)
def test_what_begins_or_ends_is_reported(of, days, options, code, identity, bank_pki):
    found = identity.check(at=getattr(bank_pki.qwac.certificate, of) + timedelta(days=days), **options)
    assert {(one.code, one.values["certificate"]) for one in found} >= {(code, "QWAC"), (code, "QSealC")} or not code
    assert code or found == ()
    assert code != "identity.expires" or {one.values["days"] for one in found} == {"20"}


def replace_files(pki: Pki, folder: Path, *, qwac: Issued | None = None, qseal: Issued | None = None) -> None:
    """Write an identity of a PKI, of these certificates in the place of its own."""
    qwac, qseal = qwac or pki.qwac, qseal or pki.qseal
    write = {
        "qwac-chain.pem": b"".join(map(certificate_pem, (qwac.certificate, *qwac.chain))),
        "qwac.key": key_pem(qwac.key),
        "qseal.pem": certificate_pem(qseal.certificate),
        "qseal.key": key_pem(qseal.key),
        "root.pem": certificate_pem(pki.root.certificate),
    }
    for name, data in write.items():
        (folder / name).write_bytes(data)


@pytest.fixture
def new(bank_pki: Pki) -> Issued:
    """A renewed QWAC."""
    return bank_pki.issue_qwac(bank_pki.provider, label="new")


@pytest.fixture
def new_seal(bank_pki: Pki) -> Issued:
    """A renewed QSealC."""
    return bank_pki.issue_qseal(bank_pki.provider, label="new")


@pytest.fixture
def renewable(bank_pki: Pki, tmp_path: Path) -> tuple[Identity, Path]:
    """An identity, and the folder of the files it was read from."""
    replace_files(bank_pki, tmp_path)
    return Identity.from_files(**files(tmp_path)), tmp_path


def test_a_renewed_certificate_and_seal_are_used_from_the_next_connection_on(
    renewable, new, new_seal, bank_pki, bank_pki_folder
):
    identity, folder = renewable
    before = identity._present
    assert identity.reload(at=utc_now()) is False  # the files did not change
    assert identity._present is before
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, http(200)) as bank:
        held = identity.tls_context
        for renew in (False, False, True):
            if renew:
                replace_files(bank_pki, folder, qwac=new, qseal=new_seal)
                assert identity.reload(at=utc_now()) is True
            assert ask(held, bank.port) == b"H"
    assert bank.shown == [bank_pki.qwac.certificate.der] * 2 + [new.certificate.der]
    assert identity.seal is not None
    assert (identity.qwac, identity.seal.certificate) == (new.certificate, new_seal.certificate)


def renewed(pki: Pki) -> dict[str, Issued]:
    return {"qwac": pki.issue_qwac(pki.provider, label="new")}


def of_another(pki: Pki) -> dict[str, Issued]:
    return {"qwac": pki.issue_qwac(OTHER, label="other-qwac"), "qseal": pki.issue_qseal(OTHER, label="other-qseal")}


UNUSABLE: dict[str, tuple[Callable[[Path, Pki], Any], int, str]] = {
    "half a key": (lambda folder, pki: (folder / "qwac.key").write_bytes(b"half a fi"), 0, "key.unreadable"),
    "no chain": (lambda folder, pki: (folder / "qwac-chain.pem").unlink(), 0, "file.unreadable"),
    "another key": (
        lambda folder, pki: (folder / "qseal.key").write_bytes(key_pem(pki.qwac.key)), 0, "seal.key-mismatch"
    ),
    "no root": (lambda folder, pki: (folder / "root.pem").write_bytes(b""), 0, "certificate.not-found"),
    "not valid yet": (lambda folder, pki: replace_files(pki, folder, **renewed(pki)), -730, "identity.not-valid"),
    "expired": (lambda folder, pki: replace_files(pki, folder, **renewed(pki)), 1825, "identity.not-valid"),
    "another organisation": (
        lambda folder, pki: replace_files(pki, folder, **of_another(pki)), 0, "identity.other-organisation"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_new_files_that_cannot_be_used_leave_the_identity_as_it_was(name, renewable, bank_pki, bank_pki_folder):
    identity, folder = renewable
    before = (identity.qwac, identity.seal)
    spoil, days, code = UNUSABLE[name]
    spoil(folder, bank_pki)
    with refused(TppkitError, code):
        identity.reload(at=utc_now() + timedelta(days=days))
    assert (identity.qwac, identity.seal) == before
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, http(200)) as bank:
        ask(identity.tls_context, bank.port)
    assert bank.shown == [bank_pki.qwac.certificate.der]


def test_a_renewal_that_loses_the_seal_is_not_accepted(renewable, new, bank_pki_folder):
    identity, _ = renewable
    before = (identity.qwac, identity.seal)
    with refused(ConfigurationError, "identity.seal-lost"):
        identity.renew(Identity(*certified(new)), at=utc_now())
    assert (identity.qwac, identity.seal) == before
    names = {"QWAC": "qwac.pem", "QWAC_KEY": "qwac.key", "QSEAL": "qseal.pem", "QSEAL_KEY": "qseal.key"}
    environment = {f"TPPKIT_{name}": (bank_pki_folder / file).read_text() for name, file in names.items()}
    identity = Identity.from_environment(environment)
    del environment["TPPKIT_QSEAL"], environment["TPPKIT_QSEAL_KEY"]
    with refused(ConfigurationError, "identity.seal-lost"):
        identity.reload(at=utc_now())
    assert identity.seal is not None


@pytest.mark.parametrize("source", ["memory", "files"])
def test_an_identity_is_renewed_by_another_one_and_then_has_no_files_to_read(source, renewable, new, bank_pki):
    identity = renewable[0] if source == "files" else Identity(*certified(bank_pki.qwac))
    if source == "memory":
        with refused(ConfigurationError, "identity.no-source"):
            identity.reload(at=utc_now())
    identity.renew(Identity(*certified(new), seal=identity.seal), at=utc_now())
    with refused(ConfigurationError, "identity.no-source"):
        identity.reload(at=utc_now())
    assert identity.qwac == new.certificate


def test_a_renewed_identity_reads_the_files_of_the_other_one(renewable, new, bank_pki, tmp_path_factory):
    identity, _ = renewable
    replace_files(bank_pki, folder := tmp_path_factory.mktemp("other"))
    identity.renew(Identity.from_files(**files(folder)), at=utc_now())
    replace_files(bank_pki, folder, qwac=new)
    assert identity.reload(at=utc_now()) is True
    assert identity.qwac == new.certificate


@pytest.mark.parametrize("source", ["files", "environment"])
def test_a_reloader_uses_new_files_and_passes_over_a_pair_that_does_not_fit(source, new, bank_pki, tmp_path):
    replace_files(bank_pki, tmp_path)
    if source == "files":
        identity = Identity.from_files(**files(tmp_path))
    else:
        identity = Identity.from_environment({f"TPPKIT_{k.upper()}_FILE": str(v) for k, v in files(tmp_path).items()})
    counted: list[tuple[str, str]] = []
    reloader = Reloader(identity, every=1, count=lambda outcome, code, _: counted.append((outcome, code)))
    reloader.check()
    (tmp_path / "qwac.key").write_bytes(key_pem(new.key))
    reloader.check()
    assert identity.qwac == bank_pki.qwac.certificate
    replace_files(bank_pki, tmp_path, qwac=new)
    reloader.check()
    reloader.check()
    assert identity.qwac == new.certificate
    assert counted == [("refused", "identity.key-mismatch"), ("reloaded", "")]


@pytest.mark.parametrize("part", ["qwac", "qwac_key"])
def test_a_fifo_in_place_of_a_file_holds_up_no_reload_and_is_reported_once(part, bank_pki, tmp_path, caplog):
    replace_files(bank_pki, tmp_path)
    identity = Identity.from_files(**files(tmp_path))
    counted: list[tuple[str, str]] = []
    reloader = Reloader(identity, every=1, count=lambda outcome, code, _: counted.append((outcome, code)))
    path = Path(files(tmp_path)[part])
    path.unlink()
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: [reloader.check() for _ in range(2)], daemon=True)
    thread.start()
    thread.join(20)
    assert counted == [("refused", "file.unreadable")] * 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def read_with(signer, pki: Pki, folder: Path) -> Identity:
    """The identity of a PKI from files, with this signer."""
    replace_files(pki, folder)
    given = {name: path for name, path in files(folder).items() if name != "qseal_key"}
    return Identity.from_files(**given, signer=signer)


def test_a_signer_is_made_for_each_new_seal_certificate_and_for_no_other(new_seal, bank_pki, tmp_path):
    device = {issued.certificate.sha256: KeySigner(issued.key) for issued in (bank_pki.qseal, new_seal)}
    asked: list[EidasCertificate] = []

    def signer(certificate: EidasCertificate) -> Signer:
        asked.append(certificate)
        return device[certificate.sha256]

    identity = read_with(signer, bank_pki, tmp_path)
    assert identity.reload(at=utc_now()) is False
    replace_files(bank_pki, tmp_path, qseal=new_seal)
    assert identity.reload(at=utc_now()) is True
    assert asked == [bank_pki.qseal.certificate, new_seal.certificate]
    assert identity.seal is not None
    identity.seal.verify(identity.seal.signer.sign(b"x"), b"x")


class Device(KeySigner):
    """Holds something open until it is closed, like a session with a device."""

    def __init__(self, issued: Issued) -> None:
        super().__init__(issued.key)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


Devices = tuple[Identity, Path, list[Device], list[Issued]]


@pytest.fixture
def in_devices(bank_pki: Pki, tmp_path: Path) -> Devices:
    """An identity whose signers a function makes; its folder, the signers made, and whose key the next one has."""
    made, keys = [], [bank_pki.qseal]

    def signer(certificate: EidasCertificate) -> Signer:
        made.append(Device(keys[0]))
        return made[-1]

    return read_with(signer, bank_pki, tmp_path), tmp_path, made, keys


def test_a_renewed_identity_closes_the_signer_that_was_made_for_it(in_devices, new, new_seal, bank_pki):
    identity, folder, made, keys = in_devices
    keys[0] = new_seal
    replace_files(bank_pki, folder, qwac=new)
    assert identity.reload(at=utc_now()) is True
    assert [device.closed for device in made] == [0]
    replace_files(bank_pki, folder, qseal=new_seal)
    assert identity.reload(at=utc_now()) is True
    assert [device.closed for device in made] == [1, 0]
    other = Device(bank_pki.qseal)
    for seal in (Seal(bank_pki.qseal.certificate, other), seal_of(new_seal)):
        identity.renew(Identity(*certified(bank_pki.qwac), seal=seal), at=utc_now())
    assert [device.closed for device in (*made, other)] == [1, 1, 0]


def test_a_signer_that_does_not_sign_for_the_new_certificate_is_closed_unless_it_is_in_use(
    in_devices, new_seal, bank_pki, tmp_path
):
    identity, folder, made, _ = in_devices
    one = Device(bank_pki.qseal)
    in_use = read_with(lambda _: one, bank_pki, tmp_path)
    replace_files(bank_pki, folder, qseal=new_seal)
    for reloaded in (identity, identity, identity, in_use):
        with refused(ConfigurationError, "seal.key-mismatch"):
            reloaded.reload(at=utc_now())
    assert [device.closed for device in (*made, one)] == [0, 1, 1, 1, 0]


def test_a_signer_that_must_be_awaited_to_be_closed_is_refused_or_logged_where_that_turns_out_later(
    bank_pki, tmp_path, caplog
):
    class Awaited(KeySigner):
        async def close(self) -> None: ...

    class AwaitedLater(KeySigner):
        def close(self) -> Any:
            return Awaited.close(self)  # type: ignore[arg-type]

    with refused(ConfigurationError, "signer.close"):
        read_with(lambda _: Awaited(bank_pki.qseal.key), bank_pki, tmp_path)
    close_signer(AwaitedLater(bank_pki.qseal.key))
    assert len(caplog.messages) == 1
    assert "the close of AwaitedLater returned an awaitable" in caplog.messages[0]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OSError("PIN 123456"), "OSError"),
        (ConfigurationError("signer.module", "the library is gone"), "the library is gone [signer.module]"),
    ],
)
def test_what_closing_a_signer_raises_is_logged_without_foreign_text(
    raised, told, new_seal, bank_pki, tmp_path, caplog
):
    class Stuck(KeySigner):
        def close(self) -> None:
            raise raised

    keys = [bank_pki.qseal.key]
    identity = read_with(lambda _: Stuck(keys[0]), bank_pki, tmp_path)
    keys[0] = new_seal.key
    replace_files(bank_pki, tmp_path, qseal=new_seal)
    assert identity.reload(at=utc_now()) is True
    assert caplog.messages == [f"an unused signer was not closed: {told}"]


UNFIT_SEALS: dict[str, tuple[Callable[[Pki], Issued], int, str]] = {
    "another organisation": (lambda pki: pki.issue_qseal(OTHER, label="other"), 0, "identity.other-organisation"),
    "no seal": (lambda pki: pki.issue_qwac(pki.provider, label="new"), 0, "seal.certificate-type"),
    "expired": (lambda pki: pki.issue_qseal(pki.provider, label="new"), 1825, "identity.not-valid"),
    "not valid yet": (lambda pki: pki.issue_qseal(pki.provider, label="new"), -730, "identity.not-valid"),
}


@pytest.mark.parametrize("name", UNFIT_SEALS)
def test_no_signer_is_made_for_a_certificate_that_is_not_accepted(name, in_devices, bank_pki):
    identity, folder, made, _ = in_devices
    issue, days, code = UNFIT_SEALS[name]
    replace_files(bank_pki, folder, qseal=issue(bank_pki))
    with refused(ConfigurationError, code):
        identity.reload(at=utc_now() + timedelta(days=days))
    assert (len(made), made[0].closed) == (1, 0)


@pytest.mark.slow
def test_every_connection_made_while_renewing_shows_one_certificate_or_the_other(bank_pki, bank_pki_folder):
    first, second = bank_pki.qwac, bank_pki.issue_qwac(bank_pki.provider, label="new", key="rsa2048")
    given = {"server_anchors": [bank_pki.root.certificate]}
    made = [Identity(one.certificate, one.key, chain=one.chain, **given) for one in (first, second)]
    identity = Identity(first.certificate, first.key, chain=first.chain, **given)
    end = threading.Event()

    def renew() -> None:
        while not end.is_set():
            for other in made:
                identity.renew(other, at=utc_now())

    renewing = threading.Thread(target=renew)
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, http(200)) as bank:
        renewing.start()
        try:
            for _ in range(40):
                ask(identity.tls_context, bank.port)
        finally:
            end.set()
            renewing.join()
    assert len(bank.shown) == 40
    assert set(bank.shown) <= {first.certificate.der, second.certificate.der}
