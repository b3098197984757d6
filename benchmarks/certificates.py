"""Reading, showing and judging certificates."""

from __future__ import annotations

import csv
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Line, Subject, against, within
from tppkit.certificates import EidasCertificate, Use, check_certificate, extensions, names
from tppkit.certificates.authorities import AUTHORITIES
from tppkit.testpki import Provider, certificate_pem, make_pki, make_provider

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
DATA = Path(__file__).parents[2] / "shared" / "data" / "certificates"


def reading() -> Iterator[Line]:
    """Reading a certificate and every fact of it; and a thousand, as the command does it."""
    pki = make_pki(at=AT, seed=1)
    made = (pki.issue_qwac(provider, label=f"qwac-{n}").certificate.der for n, provider in enumerate(providers()))
    leaves = cycle(list(made))  # another provider's each time, from the same authority: most extensions are remembered
    first = next(leaves)
    yield within("read a QWAC, nothing remembered", lambda: read_anew(first), limit_us=100, rounds=2000)
    yield within("read a whole QWAC", lambda: read_all(next(leaves)), limit_us=100, rounds=4000)
    for territory in ("NO", "PT"):
        leaf = production_qwac(territory)
        if leaf:
            name = f"read a production QWAC again ({territory})"  # the same one: all its extensions are remembered
            yield within(name, partial(read_all, leaf), limit_us=100, rounds=4000)
    yield show_many()


def read_all(leaf: bytes) -> object:
    """A certificate and every fact of it."""
    certificate = EidasCertificate.from_der(leaf)
    return (
        str(certificate.subject), str(certificate.issuer), certificate.serial_hex, certificate.key, certificate.sha256,
        certificate.organization_identifier, certificate.roles, certificate.qc, certificate.findings,
    )  # fmt: skip


def read_anew(leaf: bytes) -> object:
    """The same as the first certificate that a process reads; emptying the memories takes about 1 us of it."""
    for memory in (extensions._remembered, names._remembered):
        memory.cache_clear()
    return read_all(leaf)


def production_qwac(territory: str) -> bytes | None:
    """A QWAC that a service of this country's trusted list issued, where the shared data are present."""
    if not DATA.is_dir():
        return None
    marks = {"NO": "tl_norway_no", "PT": "gns_gov_pt"}
    with (DATA / "index.csv").open(newline="") as file:
        name = next(row["file"] for row in csv.DictReader(file) if marks[territory] in row["origin"])
    return (DATA / name).read_bytes()


def providers() -> Iterator[Provider]:
    """Two thousand providers of many authorities."""
    authorities = sorted(AUTHORITIES)
    roles = ("PSP_PI", "PSP_AI", "PSP_IC", "PSP_AS")
    for number in range(2000):
        yield make_provider(
            organization_identifier=f"PSD{authorities[number % len(authorities)]}-{number:06}",
            name=f"Payments {number} TEST",
            dns_name=f"tpp{number}.test.example",
            roles=roles[: 1 + number % 4],
        )


def show_many() -> Line:
    """The command line showing the certificates of a thousand files, as a process."""
    pki = make_pki(at=AT, seed=1)
    with TemporaryDirectory() as folder:
        for number, provider in enumerate(islice(providers(), 1000)):
            path = Path(folder) / f"{number}.pem"
            path.write_bytes(certificate_pem(pki.issue_qwac(provider, label=str(number)).certificate))
        command = [str(Path(sys.executable).with_name("tppkit")), "cert", "show", *map(str, Path(folder).iterdir())]
        return within(
            "cert show, 1,000 files",
            lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),  # noqa: S603  # our own command
            limit_us=3_000_000,
            rounds=3,
        )


def judging() -> Iterator[Line]:
    """Every rule on a QWAC; then from its bytes, as pkilint does it too."""
    qwac = make_pki(at=AT, seed=1).qwac.certificate

    def check() -> object:
        return check_certificate(qwac, as_=Use.QWAC, at=AT)

    def read_and_check() -> object:
        return check_certificate(EidasCertificate.from_der(qwac.der), as_=Use.QWAC, at=AT)

    yield within("check a QWAC", check, limit_us=1000, rounds=2000)
    yield against("read and check a QWAC", read_and_check, pkilint(qwac.der), what="pkilint", limit=0.1, rounds=100)


def pkilint(leaf: bytes) -> Subject:
    """Reads and lints by the profile that it takes the certificate for; its validators are made once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pkilint import etsi, loader
        from pkilint.pkix import certificate

    kind = etsi.determine_certificate_type(loader.load_certificate(leaf, "QWAC"))
    container = certificate.create_pkix_certificate_validator_container(
        etsi.create_decoding_validators(kind), etsi.create_validators(kind)
    )

    def lint() -> object:
        return container.validate(loader.load_certificate(leaf, "QWAC").root)

    return lint
