"""Who we are to a bank: keys that fit, one organisation, and no key left on the disk."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from rogue_bank import ask, http, rogue_bank, server_context

from refusals import refused
from tppkit._clock import utc_now
from tppkit.certificates import EidasCertificate
from tppkit.client import Identity
from tppkit.client.identity_sources import close_signer
from tppkit.errors import ConfigurationError, FormatError, TppkitError
from tppkit.seals import KeySigner, Seal, Signer
from tppkit.testpki import Issued, Pki, certificate_pem, key_pem, make_provider


def seal_of(issued: Issued) -> Seal:
    return Seal(issued.certificate, KeySigner(issued.key))


def files(folder: Path) -> dict[str, Path]:
    names = {"qwac": "qwac-chain.pem", "qwac_key": "qwac.key", "qseal": "qseal.pem", "qseal_key": "qseal.key"}
    return {name: folder / file for name, file in names.items()} | {"server_anchors": folder / "root.pem"}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def weak() -> tuple[EidasCertificate, rsa.RSAPrivateKey]:
    """A certificate whose key TLS libraries do not take."""
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "weak TEST")])
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
    )
    builder = builder.not_valid_before(utc_now()).not_valid_after(utc_now() + timedelta(days=1))
    signed = builder.sign(key, hashes.SHA256())
    return EidasCertificate.from_der(signed.public_bytes(Encoding.DER)), key


def test_a_seal_of_another_organisation_is_refused(bank_pki: Pki) -> None:
    other = bank_pki.issue_qseal(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other")
    with pytest.raises(ConfigurationError) as caught:
        Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, seal=seal_of(other))
    assert caught.value.code == "identity.other-organisation"
    assert "PSDDE-BAFIN-999999" in caught.value.message


def test_a_seal_certificate_is_not_a_website_certificate(bank_pki: Pki) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Identity(bank_pki.qseal.certificate, bank_pki.qseal.key)
    assert caught.value.code == "identity.qc-type"
    assert "eseal" in caught.value.message


@pytest.mark.parametrize("password", [None, b"wrong", b""])
def test_an_encrypted_key_is_not_read_without_its_password(password, bank_pki_folder, bank_pki, tmp_path):
    encryption = BestAvailableEncryption(b"correct horse")
    key = tmp_path / "key"
    key.write_bytes(bank_pki.qwac.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    with refused(ConfigurationError, "key.unreadable"):
        Identity.from_files(**files(bank_pki_folder) | {"qwac_key": key}, password=password)


@pytest.mark.parametrize("name", ["qwac", "qwac_key", "qseal", "qseal_key", "server_anchors"])
def test_a_file_that_is_not_there_is_reported(name: str, bank_pki_folder: Path, tmp_path: Path) -> None:
    with refused(FormatError, "file.unreadable"):
        Identity.from_files(**files(bank_pki_folder) | {name: tmp_path / "nowhere.pem"})


def test_no_server_anchors_at_all_are_not_the_systems(bank_pki: Pki) -> None:
    with refused(ConfigurationError, "trust.no-anchors"):
        Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, server_anchors=())


def test_given_server_anchors_replace_those_of_the_system(bank_pki: Pki) -> None:
    identity = Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, server_anchors=[bank_pki.root.certificate])
    assert identity.tls_context.get_ca_certs(binary_form=True) == [bank_pki.root.certificate.der]


def test_no_temporary_file_is_left_when_tls_refuses_the_key(
    weak: tuple[EidasCertificate, rsa.RSAPrivateKey], temporary: Path
) -> None:
    with refused(ConfigurationError, "identity.tls"):
        Identity(*weak)
    assert list(temporary.iterdir()) == []


def test_nothing_is_reported_about_certificates_that_hold_for_long(identity: Identity, bank_pki: Pki) -> None:
    assert identity.check(at=bank_pki.qwac.certificate.not_before) == ()


@pytest.mark.parametrize(
    ("days", "found"),
    [
        (-1, {("identity.not-yet-valid", "QWAC"), ("identity.not-yet-valid", "QSealC")}),
        (None, {("identity.expires", "QWAC"), ("identity.expires", "QSealC")}),
        (1000, {("identity.expired", "QWAC"), ("identity.expired", "QSealC")}),
    ],
)
def test_what_begins_or_ends_is_reported(
    days: int | None, found: set[tuple[str, str]], identity: Identity, bank_pki: Pki
) -> None:
    qwac = bank_pki.qwac.certificate
    at = qwac.not_before + timedelta(days=days) if days is not None else qwac.not_after - timedelta(days=20, hours=1)
    findings = identity.check(at=at)
    assert found <= {(finding.code, finding.values["certificate"]) for finding in findings}
    assert days is not None or {finding.values["days"] for finding in findings} == {"20"}


def test_how_early_an_end_is_reported_can_be_chosen(identity: Identity, bank_pki: Pki) -> None:
    at = bank_pki.qwac.certificate.not_after - timedelta(days=20)
    assert identity.check(at=at, warn_days=10) == ()


def replace_files(pki: Pki, folder: Path, *, qwac: Issued, qseal: Issued) -> None:
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
def renewable(bank_pki: Pki, tmp_path: Path) -> tuple[Identity, Path]:
    """An identity, and the folder of the files it was read from."""
    folder = tmp_path / "identity"
    folder.mkdir()
    replace_files(bank_pki, folder, qwac=bank_pki.qwac, qseal=bank_pki.qseal)
    return Identity.from_files(**files(folder)), folder


def test_files_that_did_not_change_change_nothing(renewable: tuple[Identity, Path]) -> None:
    identity, _ = renewable
    before = (identity.seal, identity._contexts)
    assert identity.reload(at=utc_now()) is False
    assert (identity.seal, identity._contexts) == before


def test_a_renewed_certificate_and_seal_are_used_from_the_next_connection_on(renewable, bank_pki, bank_pki_folder):
    identity, folder = renewable
    qwac = bank_pki.issue_qwac(bank_pki.provider, label="new")
    qseal = bank_pki.issue_qseal(bank_pki.provider, label="new-seal")
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, http(200)) as bank:
        held = identity.tls_context
        for renew in (False, False, True):
            if renew:
                replace_files(bank_pki, folder, qwac=qwac, qseal=qseal)
                assert identity.reload(at=utc_now()) is True
            assert ask(held, bank.port) == b"H"
    assert bank.shown == [bank_pki.qwac.certificate.der] * 2 + [qwac.certificate.der]
    assert identity.seal is not None
    assert (identity.qwac, identity.seal.certificate) == (qwac.certificate, qseal.certificate)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda folder: (folder / "qwac.key").write_bytes(b"half a fi"), "key.unreadable"),
        (lambda folder: (folder / "qwac-chain.pem").unlink(), "file.unreadable"),
        (lambda folder: (folder / "qseal.key").write_bytes((folder / "qwac.key").read_bytes()), "seal.key-mismatch"),
        (lambda folder: (folder / "root.pem").write_bytes(b""), "certificate.not-found"),
    ],
)
def test_broken_new_files_leave_the_identity_as_it_was(
    spoil: Any, code: str, renewable: tuple[Identity, Path], bank_pki: Pki, bank_pki_folder: Path
) -> None:
    identity, folder = renewable
    before = (identity.qwac, identity.seal)
    spoil(folder)
    with refused(TppkitError, code):
        identity.reload(at=utc_now())
    assert (identity.qwac, identity.seal) == before
    context = server_context(bank_pki_folder, client_anchors=bank_pki_folder / "root.pem")
    with rogue_bank(context, http(200)) as bank:
        ask(identity.tls_context, bank.port)
    assert bank.shown == [bank_pki.qwac.certificate.der]


@pytest.mark.parametrize("years", [-2, 5])
def test_a_renewed_certificate_that_is_not_valid_is_not_accepted(years: int, renewable: Any, bank_pki: Pki) -> None:
    identity, folder = renewable
    replace_files(bank_pki, folder, qwac=bank_pki.issue_qwac(bank_pki.provider, label="new"), qseal=bank_pki.qseal)
    with refused(ConfigurationError, "identity.not-valid"):
        identity.reload(at=utc_now() + timedelta(days=365 * years))
    assert identity.qwac == bank_pki.qwac.certificate


def test_a_renewed_certificate_of_another_organisation_is_not_accepted(renewable: Any, bank_pki: Pki) -> None:
    identity, folder = renewable
    other = make_provider(organization_identifier="PSDDE-BAFIN-999999")
    qwac, qseal = bank_pki.issue_qwac(other, label="other-qwac"), bank_pki.issue_qseal(other, label="other-qseal")
    replace_files(bank_pki, folder, qwac=qwac, qseal=qseal)
    with refused(ConfigurationError, "identity.other-organisation"):
        identity.reload(at=utc_now())
    assert identity.qwac == bank_pki.qwac.certificate


def test_a_renewal_that_loses_the_seal_is_not_accepted(renewable: Any, bank_pki: Pki, bank_pki_folder: Path) -> None:
    identity, _ = renewable
    before = (identity.qwac, identity.seal)
    new = bank_pki.issue_qwac(bank_pki.provider, label="no seal")
    with refused(ConfigurationError, "identity.seal-lost"):
        identity.renew(Identity(new.certificate, new.key), at=utc_now())
    assert (identity.qwac, identity.seal) == before
    names = {"QWAC": "qwac.pem", "QWAC_KEY": "qwac.key", "QSEAL": "qseal.pem", "QSEAL_KEY": "qseal.key"}
    environment = {f"TPPKIT_{name}": (bank_pki_folder / file).read_text() for name, file in names.items()}
    identity = Identity.from_environment(environment)
    del environment["TPPKIT_QSEAL"], environment["TPPKIT_QSEAL_KEY"]
    with refused(ConfigurationError, "identity.seal-lost"):
        identity.reload(at=utc_now())
    assert identity.seal is not None


def test_an_identity_of_memory_is_renewed_by_another_one(bank_pki: Pki) -> None:
    identity = Identity(bank_pki.qwac.certificate, bank_pki.qwac.key)
    with refused(ConfigurationError, "identity.no-source"):
        identity.reload(at=utc_now())
    new = bank_pki.issue_qwac(bank_pki.provider, label="new")
    identity.renew(Identity(new.certificate, new.key), at=utc_now())
    assert identity.qwac == new.certificate


def test_what_was_renewed_is_not_undone_by_reading_the_old_files(
    renewable: tuple[Identity, Path], bank_pki: Pki
) -> None:
    identity, _ = renewable
    new = bank_pki.issue_qwac(bank_pki.provider, label="new")
    identity.renew(Identity(new.certificate, new.key, seal=identity.seal), at=utc_now())
    with refused(ConfigurationError, "identity.no-source"):
        identity.reload(at=utc_now())
    assert identity.qwac == new.certificate


def test_a_renewed_identity_reads_the_files_of_the_other_one(
    renewable: tuple[Identity, Path], bank_pki: Pki, tmp_path: Path
) -> None:
    identity, _ = renewable
    folder = tmp_path / "other"
    folder.mkdir()
    replace_files(bank_pki, folder, qwac=bank_pki.qwac, qseal=bank_pki.qseal)
    identity.renew(Identity.from_files(**files(folder)), at=utc_now())
    new = bank_pki.issue_qwac(bank_pki.provider, label="new")
    replace_files(bank_pki, folder, qwac=new, qseal=bank_pki.qseal)
    assert identity.reload(at=utc_now()) is True
    assert identity.qwac == new.certificate


def read_with(signer, pki: Pki, folder: Path) -> Identity:
    """The identity of a PKI from files, with this signer."""
    replace_files(pki, folder, qwac=pki.qwac, qseal=pki.qseal)
    given = {name: path for name, path in files(folder).items() if name != "qseal_key"}
    return Identity.from_files(**given, signer=signer)


def test_a_signer_is_made_for_each_new_seal_certificate_and_for_no_other(bank_pki, tmp_path):
    new = bank_pki.issue_qseal(bank_pki.provider, label="new")
    device = {issued.certificate.sha256: KeySigner(issued.key) for issued in (bank_pki.qseal, new)}
    asked: list[EidasCertificate] = []

    def signer(certificate: EidasCertificate) -> Signer:
        asked.append(certificate)
        return device[certificate.sha256]

    identity = read_with(signer, bank_pki, tmp_path)
    assert identity.reload(at=utc_now()) is False
    replace_files(bank_pki, tmp_path, qwac=bank_pki.qwac, qseal=new)
    assert identity.reload(at=utc_now()) is True
    assert asked == [bank_pki.qseal.certificate, new.certificate]
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


def test_a_renewed_identity_closes_the_signer_that_was_made_for_it(in_devices: Devices, bank_pki: Pki) -> None:
    identity, folder, made, keys = in_devices
    keys[0] = new = bank_pki.issue_qseal(bank_pki.provider, label="new")
    replace_files(bank_pki, folder, qwac=bank_pki.issue_qwac(bank_pki.provider, label="new"), qseal=bank_pki.qseal)
    assert identity.reload(at=utc_now()) is True
    assert [device.closed for device in made] == [0]
    replace_files(bank_pki, folder, qwac=bank_pki.qwac, qseal=new)
    assert identity.reload(at=utc_now()) is True
    assert [device.closed for device in made] == [1, 0]
    other = Device(bank_pki.qseal)
    seal = Seal(bank_pki.qseal.certificate, other)
    identity.renew(Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, seal=seal), at=utc_now())
    identity.renew(Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, seal=seal_of(new)), at=utc_now())
    assert [device.closed for device in (*made, other)] == [1, 1, 0]


def test_a_signer_that_does_not_sign_for_the_new_certificate_is_closed(in_devices: Devices, bank_pki: Pki) -> None:
    identity, folder, made, _ = in_devices
    replace_files(
        bank_pki, folder, qwac=bank_pki.qwac, qseal=bank_pki.issue_qseal(bank_pki.provider, label="another key")
    )
    for _ in range(3):
        with refused(ConfigurationError, "seal.key-mismatch"):
            identity.reload(at=utc_now())
    assert [device.closed for device in made] == [0, 1, 1, 1]


def test_the_signer_in_use_stays_open_when_it_does_not_sign_for_the_new_certificate(bank_pki, tmp_path):
    one = Device(bank_pki.qseal)
    identity = read_with(lambda _: one, bank_pki, tmp_path)
    replace_files(bank_pki, tmp_path, qwac=bank_pki.qwac, qseal=bank_pki.issue_qseal(bank_pki.provider, label="new"))
    with pytest.raises(ConfigurationError) as caught:
        identity.reload(at=utc_now())
    assert (caught.value.code, one.closed) == ("seal.key-mismatch", 0)


def test_a_signer_that_must_be_awaited_to_be_closed_is_refused(bank_pki, tmp_path):
    class Awaited(KeySigner):
        async def close(self) -> None: ...

    with refused(ConfigurationError, "signer.close"):
        read_with(lambda _: Awaited(bank_pki.qseal.key), bank_pki, tmp_path)


def test_a_close_that_turns_out_to_be_awaited_is_logged(bank_pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    class Awaited(KeySigner):
        def close(self) -> Any:
            async def end() -> None: ...

            return end()

    close_signer(Awaited(bank_pki.qseal.key))
    assert len(caplog.messages) == 1
    assert "the close of Awaited returned an awaitable" in caplog.messages[0]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OSError("PIN 123456"), "OSError"),
        (ConfigurationError("signer.module", "the library is gone"), "the library is gone [signer.module]"),
    ],
)
def test_what_closing_a_signer_raises_is_logged_without_foreign_text(
    raised: Exception, told: str, bank_pki: Pki, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck(KeySigner):
        def close(self) -> None:
            raise raised

    keys = [bank_pki.qseal.key]
    identity = read_with(lambda _: Stuck(keys[0]), bank_pki, tmp_path)
    new = bank_pki.issue_qseal(bank_pki.provider, label="new")
    keys[0] = new.key
    replace_files(bank_pki, tmp_path, qwac=bank_pki.qwac, qseal=new)
    assert identity.reload(at=utc_now()) is True
    assert caplog.messages == [f"an unused signer was not closed: {told}"]


UNFIT: dict[str, tuple[Callable[[Pki], Issued], int, str]] = {
    "of another organisation": (
        lambda pki: pki.issue_qseal(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other"),
        0,
        "identity.other-organisation",
    ),
    "no seal": (lambda pki: pki.issue_qwac(pki.provider, label="new"), 0, "seal.certificate-type"),
    "not valid any more": (
        lambda pki: pki.issue_qseal(pki.provider, label="new"),
        365 * 5,
        "identity.not-valid",
    ),
    "not valid yet": (lambda pki: pki.issue_qseal(pki.provider, label="new"), -365 * 2, "identity.not-valid"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_no_signer_is_made_for_a_certificate_that_is_not_accepted(
    name: str, in_devices: Devices, bank_pki: Pki
) -> None:
    identity, folder, made, _ = in_devices
    issue, days, code = UNFIT[name]
    replace_files(bank_pki, folder, qwac=bank_pki.qwac, qseal=issue(bank_pki))
    with pytest.raises(ConfigurationError) as caught:
        identity.reload(at=utc_now() + timedelta(days=days))
    assert (caught.value.code, len(made), made[0].closed) == (code, 1, 0)


def test_every_connection_made_while_renewing_shows_one_certificate_or_the_other(
    bank_pki: Pki, bank_pki_folder: Path
) -> None:
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
