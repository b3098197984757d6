"""The catalogue of faults as files, and their entries in the manifest."""

from __future__ import annotations

from collections.abc import Iterator

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate, Use
from tppkit.certificates.editions import EN_319_412_5_V2_4_1
from tppkit.errors import ConfigurationError
from tppkit.testpki.faults.catalogue import FAULTS, Fault
from tppkit.testpki.faults.valid_pki import FaultCase, judged_at, plain_pki
from tppkit.testpki.manifest import Entry, PkiFile, make_entry
from tppkit.testpki.pem import pem_block
from tppkit.testpki.pki import Pki

FAULTS_FOLDER = "faults"
# The start of the latest rule that a fault breaks. Before that day, a check correctly accepts some of the catalogue.
EARLIEST_DAY = EN_319_412_5_V2_4_1.begins


def make_faults(pki: Pki) -> Iterator[tuple[Entry, list[PkiFile]]]:
    """Make the manifest's entry and the files of every fault.

    Besides the keys of every entry, it has `verdict` (a check `fails`, `warns` or only `notes`), `gate` (the code with which the gate of
    `tppkit.web` rejects it, or `admitted`), `as` (the use that the certificate
    claims), `at` (the time to judge it at), `crl` and `ocsp` (the files to judge it with), `command` (the whole check), and
    `summary` (what is wrong).

    Args:
        pki: The PKI, whose authorities and keys are used.

    Raises:
        ConfigurationError: `pki.faults`: the PKI begins before the rules that the catalogue breaks.
    """
    if pki.not_before.date() < EARLIEST_DAY:
        message = f"faults break rules that hold since {EARLIEST_DAY}, but the PKI begins on {pki.not_before.date()}"
        raise ConfigurationError("pki.faults", message)
    pki = plain_pki(pki)
    for fault in FAULTS.values():
        case = fault.make(pki)
        files = list(_files(fault, case))
        yield _entry(pki, fault, case, [file.name for file in files]), files


def _files(fault: Fault, case: FaultCase) -> Iterator[PkiFile]:
    stem = f"{FAULTS_FOLDER}/{fault.name}"
    chain = b"".join(pem_block("CERTIFICATE", encoded) for encoded in (case.leaf, *case.intermediates))
    yield PkiFile(f"{stem}.pem", chain)
    for kind, answers in (("crl", case.crls), ("ocsp", case.ocsp)):
        for number, answer in enumerate(answers, 1):
            yield PkiFile(f"{stem}-{number}.{kind}", answer)


def _entry(pki: Pki, fault: Fault, case: FaultCase, names: list[str]) -> Entry:
    leaf, at, valid = EidasCertificate.from_der(case.leaf), format_time(judged_at(pki)), pki.members[fault.use.value]
    key_path = f"{valid.label}.key" if leaf.public_key == valid.certificate.public_key else None
    return make_entry(names[0], "fault", leaf.sha256, leaf.not_after, further=names[1:], key_path=key_path) | {
        "expected": list(fault.expected),
        "verdict": fault.verdict,
        "gate": fault.gate,
        "as": fault.use.value,
        "at": at,
        "crl": [name for name in names if name.endswith(".crl")],
        "ocsp": [name for name in names if name.endswith(".ocsp")],
        "command": _command(names, use=fault.use, at=at),
        "summary": fault.summary,
    }


def _command(names: list[str], *, use: Use, at: str) -> str:
    """Return the command line of the check, for a shell in the PKI's folder."""
    path, *answers = names
    kept = "".join(f" --{'crl' if name.endswith('.crl') else 'ocsp'} {name}" for name in answers)
    return f"tppkit cert check {path} --as {use.value} --trust root.pem --at {at}{kept}"
