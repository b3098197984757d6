"""A test PKI as files, in every form that a TPP or a bank asks for, with a manifest and a guide that name each.

For each certificate LABEL: `LABEL.pem`, `LABEL.der`, `LABEL.key` (mode 0600). For a leaf also `LABEL-chain.pem` (the issuing
authority behind it), `LABEL.p12` (password `test`), `LABEL.csr` and `LABEL.b64` (one line, for TPP-Signature-Certificate).
For each authority `LABEL.crl`. The trusted lists stand in `trusted-lists`, with the signer of the list of lists as
`trust.load_trusted_lists` wants it. An entry of the manifest names the other files of a certificate in `further_paths`; its
`sha256` is that of the certificate's DER, of all else that of the file's bytes; `not_after` of a list is its next update.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._clock import format_time
from tppkit._files import PRIVATE, FilePath, as_path, make_folder, new_folder, write_new
from tppkit.certificates import EidasCertificate
from tppkit.testpki.authority import Pki
from tppkit.testpki.bundle import write_pkcs12
from tppkit.testpki.draft import Draft
from tppkit.testpki.fault_files import FAULTS_FOLDER, make_faults
from tppkit.testpki.guide import make_guide
from tppkit.testpki.issued import Issued
from tppkit.testpki.pem import PkiFile, certificate_pem, key_pem, pem_block
from tppkit.testpki.requests import write_request
from tppkit.testpki.trusted_lists import LIST_DAYS, LIST_FILES, make_trusted_lists

MANIFEST, GUIDE = "manifest.json", "README.md"
TRUSTED_LISTS, LOTL_SIGNERS = "trusted-lists", "lotl-signers"  # as `trust.load_trusted_lists` reads them
_LOTL = f"{TRUSTED_LISTS}/{LIST_FILES[0]}"
LOTL_SIGNER = f"{TRUSTED_LISTS}/{LOTL_SIGNERS}/lotl-signer.pem"
P12_PASSWORD = "test"  # noqa: S105  # of test keys that lie beside it in the clear
_LEAVES = frozenset({"qwac", "qseal", "server"})
_LEAF_ENDINGS = ("-chain.pem", ".b64", ".csr", ".p12")
Listed = tuple[dict[str, Any], list[PkiFile]]  # an entry of the manifest, and the files that it names
ENDINGS = (".pem", ".der", ".key", *_LEAF_ENDINGS)


def write_pki(
    pki: Pki, directory: FilePath, *, further: tuple[Issued, ...] = (), with_faults: bool = False
) -> dict[str, Any]:
    """Write everything into a new folder, all or nothing.

    Args:
        pki: the PKI.
        directory: absent or an empty folder.
        further: certificates issued besides, written alike.
        with_faults: also write the catalogue of faults, in the folder `faults`.

    Returns:
        The manifest that was written, as CLI.md describes it.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`; `pki.faults`, the PKI begins before the rules that faults break.
    """
    everything = (*pki.issued, *further)
    faults = list(make_faults(pki)) if with_faults else []
    others = [*_callback_keys(pki), *_crls(pki), *_trusted_lists(pki), *faults]
    entries = [*map(entry_of, everything), *(entry for entry, _ in others)]
    manifest = {
        "organization_identifier": pki.provider.organization_identifier.text,
        "roles": list(pki.provider.roles),
        "files": entries,
    }
    with new_folder(as_path(directory)) as folder:
        make_folder(folder / TRUSTED_LISTS / LOTL_SIGNERS)
        if faults:
            make_folder(folder / FAULTS_FOLDER)
        for issued in everything:
            write_files(folder, files_of(pki, issued))
        for _, files in others:
            write_files(folder, files)
        write_new(folder / GUIDE, make_guide(pki, password=P12_PASSWORD, with_faults=with_faults).encode())
        write_new(folder / MANIFEST, manifest_json(manifest))
    return manifest


def manifest_json(manifest: dict[str, Any]) -> bytes:
    """The manifest as it is written."""
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()


def entry_of(issued: Issued) -> dict[str, Any]:
    """The manifest's entry of a certificate."""
    endings = (".der", *(_LEAF_ENDINGS if issued.kind in _LEAVES else ()))
    further = [f"{issued.label}{ending}" for ending in endings]
    entry = certificate_entry(issued.certificate, label=issued.label, kind=issued.kind, further=further)
    return entry | {"key_path": f"{issued.label}.key"}


def certificate_entry(
    certificate: EidasCertificate, *, label: str, kind: str, further: Sequence[str]
) -> dict[str, Any]:
    """The manifest's entry of a certificate without key.

    Args:
        certificate: the certificate.
        label: stem of its files.
        kind: as CLI.md names it.
        further: its other files.
    """
    return {
        "path": f"{label}.pem", "kind": kind, "key_path": None, "sha256": certificate.sha256,
        "not_after": format_time(certificate.not_after), "expected": [], "further_paths": list(further),
    }  # fmt: skip


def _file_entry(
    file: PkiFile, kind: str, *, not_after: datetime | None = None, further: Sequence[str] = ()
) -> dict[str, Any]:
    """The manifest's entry of what is no certificate: `sha256` is of the file's bytes."""
    return {
        "path": file.name, "kind": kind, "key_path": None, "sha256": hashlib.sha256(file.content).hexdigest(),
        "not_after": format_time(not_after) if not_after else None, "expected": [], "further_paths": list(further),
    }  # fmt: skip


def write_files(folder: Path, files: Iterable[PkiFile]) -> None:
    """Write files that are not there yet.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    for name, content, mode in files:
        write_new(folder / name, content, mode=mode)


def files_of(pki: Pki, issued: Issued) -> Iterator[PkiFile]:
    """Every file of one certificate."""
    label, certificate = issued.label, issued.certificate
    pem = certificate_pem(certificate)
    yield PkiFile(f"{label}.pem", pem)
    yield PkiFile(f"{label}.der", certificate.der)
    yield PkiFile(f"{label}.key", key_pem(issued.key), PRIVATE)
    if issued.kind in _LEAVES:
        chain = (certificate, *issued.chain)
        yield PkiFile(f"{label}-chain.pem", b"".join(map(certificate_pem, chain)))
        yield PkiFile(f"{label}.b64", base64.b64encode(certificate.der) + b"\n")
        yield PkiFile(f"{label}.csr", request_pem(issued))
        bundle = write_pkcs12(issued.key, chain, name=label, password=P12_PASSWORD, random=pki.keys.random_bytes)
        yield PkiFile(f"{label}.p12", bundle, PRIVATE)


def request_pem(issued: Issued) -> bytes:
    """PEM of the request for this certificate."""
    draft = Draft.of(issued.certificate)
    return pem_block("CERTIFICATE REQUEST", write_request(draft.subject, draft.extensions, issued.key))


def _callback_keys(pki: Pki) -> Iterator[Listed]:
    for label, key in pki.callback_keys.items():
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        file = PkiFile(f"{label}.pub", public)
        entry = _file_entry(file, "callback-key") | {"key_path": f"{label}.key"}
        yield entry, [file, PkiFile(f"{label}.key", key_pem(key), PRIVATE)]


def _crls(pki: Pki) -> Iterator[Listed]:
    for file in crl_files(pki, at=pki.not_before):
        yield crl_entry(file), [file]


def _trusted_lists(pki: Pki) -> Iterator[Listed]:
    """The lists, and beside the list of lists the certificate that it is verified with."""
    for file in trusted_list_files(pki, at=pki.not_before):
        further = [PkiFile(LOTL_SIGNER, certificate_pem(pki.members["lotl-signer"].certificate))]
        yield list_entry(file, at=pki.not_before), [file, *(further if file.name == _LOTL else [])]


def trusted_list_files(pki: Pki, *, at: datetime, sequence: int = 1) -> Iterator[PkiFile]:
    """The list of lists and the national list, issued at a time, with a sequence number."""
    for name, content in make_trusted_lists(pki, at=at, sequence=sequence).items():
        yield PkiFile(f"{TRUSTED_LISTS}/{name}", content)


def list_entry(file: PkiFile, *, at: datetime) -> dict[str, Any]:
    """The manifest's entry of a trusted list that was issued at a time; it ends when the next one should come."""
    further = [LOTL_SIGNER] if file.name == _LOTL else []
    return _file_entry(file, "trusted-list", not_after=at + timedelta(days=LIST_DAYS), further=further)


def crl_files(pki: Pki, *, at: datetime, number: int = 1) -> Iterator[PkiFile]:
    """The revocation list of each authority, issued at a time and good for as long as the leaf certificates."""
    for issuer in pki.issuers:
        yield PkiFile(f"{issuer.label}.crl", pki.crl(issuer, at=at, number=number, days=pki.days))


def crl_entry(file: PkiFile) -> dict[str, Any]:
    """The manifest's entry of a revocation list; it ends when the next one should come."""
    return _file_entry(file, "crl", not_after=x509.load_der_x509_crl(file.content).next_update_utc)
