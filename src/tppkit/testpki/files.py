"""A test PKI as files, in every form that a TPP or a bank needs, with a manifest and a README that name each.

Each certificate LABEL has `LABEL.pem` and `LABEL.key` (mode 0600). A leaf also has `LABEL-chain.pem` (with its issuing authority) and
`LABEL.p12` (password `test`). Each authority has `LABEL.crl`. The folder `trusted-lists` has the trusted lists, and the signer of the
list of lists where `trust.load_trusted_lists` reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._files import PRIVATE, FilePath, as_path, make_folder, new_folder, write_new
from tppkit.testpki.certificate import Issued
from tppkit.testpki.fault_files import FAULTS_FOLDER, make_faults
from tppkit.testpki.manifest import MANIFEST, Entry, PkiFile, make_entry, manifest_json
from tppkit.testpki.pem import certificate_pem, key_pem
from tppkit.testpki.pkcs12 import write_pkcs12
from tppkit.testpki.pki import BANK_SEAL, Pki
from tppkit.testpki.readme import make_readme
from tppkit.testpki.trusted_lists import LIST_DAYS, LIST_FILES, make_trusted_lists

README = "README.md"
TRUSTED_LISTS, LOTL_SIGNERS = "trusted-lists", "lotl-signers"  # as `trust.load_trusted_lists` reads them
LOTL_SIGNER = f"{TRUSTED_LISTS}/{LOTL_SIGNERS}/lotl-signer.pem"
P12_PASSWORD = "test"  # noqa: S105  # of test keys that are also there unencrypted
_LEAVES = frozenset({"qwac", "qseal", "server", BANK_SEAL})
_LEAF_ENDINGS = ("-chain.pem", ".p12")
ENDINGS = (".pem", ".key", *_LEAF_ENDINGS)
Listed = tuple[Entry, list[PkiFile]]  # an entry of the manifest, and the files that it names


def write_pki(pki: Pki, directory: FilePath, *, further: tuple[Issued, ...] = (), with_faults: bool = False) -> Entry:
    """Write everything into a new folder, all or nothing.

    Args:
        pki: The PKI.
        directory: A folder that is absent or empty.
        further: More certificates to write in the same forms.
        with_faults: Also write the catalogue of faults, in the folder `faults`.

    Returns:
        The manifest, as CLI.md describes it.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`; `pki.faults`: the PKI begins before the rules that faults break.
    """
    faults = list(make_faults(pki)) if with_faults else []
    members = [(entry_of(issued), list(files_of(pki, issued))) for issued in (*pki.issued, *further)]
    crls, lists = revocation_lists(pki, pki.issuers, at=pki.not_before), trusted_lists(pki, at=pki.not_before)
    signer = PkiFile(LOTL_SIGNER, certificate_pem(pki.members["lotl-signer"].certificate))
    listed = [*members, *_callback_keys(pki), *((entry, [file]) for entry, file in (*crls, *lists)), *faults]
    manifest = {
        "organization_identifier": pki.provider.organization_identifier.text,
        "roles": list(pki.provider.roles),
        "files": [entry for entry, _ in listed],
    }
    with new_folder(as_path(directory)) as folder:
        make_folder(folder / TRUSTED_LISTS / LOTL_SIGNERS)
        if faults:
            make_folder(folder / FAULTS_FOLDER)
        write_files(folder, [*(file for _, files in listed for file in files), signer])
        readme = make_readme(pki, password=P12_PASSWORD, with_faults=with_faults)
        write_files(folder, [PkiFile(README, readme.encode()), PkiFile(MANIFEST, manifest_json(manifest))])
    return manifest


def write_files(folder: Path, files: Iterable[PkiFile]) -> None:
    """Write files that do not exist yet.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    for name, content, mode in files:
        write_new(folder / name, content, mode=mode)


def files_of(pki: Pki, issued: Issued) -> Iterator[PkiFile]:
    """Make every file of a certificate."""
    label, certificate = issued.label, issued.certificate
    yield PkiFile(f"{label}.pem", certificate_pem(certificate))
    yield PkiFile(f"{label}.key", key_pem(issued.key), PRIVATE)
    if issued.kind in _LEAVES:
        chain = (certificate, *issued.chain)
        bundle = write_pkcs12(issued.key, chain, name=label, password=P12_PASSWORD, random=pki.keys.random_bytes)
        yield PkiFile(f"{label}-chain.pem", b"".join(map(certificate_pem, chain)))
        yield PkiFile(f"{label}.p12", bundle, PRIVATE)


def entry_of(issued: Issued) -> Entry:
    """Return the manifest's entry of a certificate with its key."""
    label, certificate = issued.label, issued.certificate
    further = [f"{label}{ending}" for ending in _LEAF_ENDINGS] if issued.kind in _LEAVES else []
    return make_entry(
        f"{label}.pem", issued.kind, certificate.sha256, certificate.not_after, further=further, key_path=f"{label}.key"
    )


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file that is not a certificate, as the manifest shows it."""
    return hashlib.sha256(content).hexdigest()


def _callback_keys(pki: Pki) -> Iterator[Listed]:
    for label, key in pki.callback_keys.items():
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        entry = make_entry(f"{label}.pub", "callback-key", sha256_of(public), None, key_path=f"{label}.key")
        yield entry, [PkiFile(f"{label}.pub", public), PkiFile(f"{label}.key", key_pem(key), PRIVATE)]


def revocation_lists(
    pki: Pki, issuers: Iterable[Issued], *, at: datetime, number: int = 1
) -> Iterator[tuple[Entry, PkiFile]]:
    """Make the revocation lists of authorities, issued at a time, and their entries, which end at the next update."""
    for issuer in issuers:
        file = PkiFile(f"{issuer.label}.crl", pki.crl(issuer, at=at, number=number))
        yield make_entry(file.name, "crl", sha256_of(file.content), at + timedelta(days=pki.days)), file


def trusted_lists(pki: Pki, *, at: datetime, sequence: int = 1) -> Iterator[tuple[Entry, PkiFile]]:
    """Make the list of lists and the national list, issued at a time, and their entries, which end at the next update."""
    for name, content in make_trusted_lists(pki, at=at, sequence=sequence).items():
        file, further = PkiFile(f"{TRUSTED_LISTS}/{name}", content), [LOTL_SIGNER] if name == LIST_FILES[0] else []
        ends = at + timedelta(days=LIST_DAYS)
        yield make_entry(file.name, "trusted-list", sha256_of(content), ends, further=further), file
