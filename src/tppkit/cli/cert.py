"""`tppkit cert`: read, check and compare certificates and requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate, check_pair, check_renewal
from tppkit.certificates.pair import valid_together
from tppkit.cli.cert_check import check
from tppkit.cli.cert_show import show
from tppkit.cli.certificates import Bundle, certificate_object, passwords_option, read_bundles
from tppkit.cli.output import json_option, print_json
from tppkit.cli.verdict import print_verdict, verdict_code, verdict_object
from tppkit.errors import Finding


@click.group()
def cert() -> None:
    """Read, check and compare eIDAS certificates.

    A certificate may be PEM (also bundles: the first certificate counts, the others are intermediates), DER, one-line base64 of either,
    URL-escaped PEM, RFC 9440 or PKCS#12; - is standard input.
    """


for command in (show, check):
    cert.add_command(command)


@cert.command()
@click.argument("qwac", metavar="QWAC")
@click.argument("qsealc", metavar="QSEALC")
@passwords_option
@json_option
def pair(qwac: str, qsealc: str, password_files: tuple[Path, ...], as_json: bool) -> int:
    """Check that a QWAC and a QSealC belong to one provider; show every difference that matters.

    `tppkit cert check` checks each against its own profile.
    """
    first, second = read_bundles([qwac, qsealc], password_files)
    findings = check_pair(first.leaf, second.leaf)
    return _print(("qwac", first), ("qseal", second), findings, as_json=as_json)


@cert.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@passwords_option
@json_option
def renewal(old: str, new: str, password_files: tuple[Path, ...], as_json: bool) -> int:
    """Show the differences that matter to a bank that has stored details of OLD.

    It fails if NEW belongs to another organisation or is another kind of certificate; warnings concern some banks only.
    """
    first, second = read_bundles([old, new], password_files)
    findings = check_renewal(first.leaf, second.leaf)
    return _print(("old", first), ("new", second), findings, as_json=as_json)


def _print(
    first: tuple[str, Bundle], second: tuple[str, Bundle], findings: tuple[Finding, ...], *, as_json: bool
) -> int:
    (name, one), (other_name, other) = first, second
    if as_json:
        shared = _shared(one.leaf, other.leaf)
        print_json(verdict_object(findings, **shared, **{name: _object(one), other_name: _object(other)}))
    else:
        facts = [*_facts(name, one.leaf), *_facts(other_name, other.leaf), ("valid together", _together(one, other))]
        print_verdict(f"{one.file} and {other.file}", facts, findings)
    return verdict_code(findings)


def _shared(one: EidasCertificate, other: EidasCertificate) -> dict[str, Any]:
    """What both certificates prove: null where they differ, the roles that both have."""
    identifiers = {certificate.organization and certificate.organization.text for certificate in (one, other)}
    authorities = {c.qc.psd2 and c.qc.psd2.nca_id for c in (one, other)}
    theirs = {*other.roles}
    period = valid_together(one, other)
    return {
        "organization_identifier": identifiers.pop() if len(identifiers) == 1 else None,
        "nca_id": authorities.pop() if len(authorities) == 1 else None,
        "roles": [role for role in one.roles if role in theirs],
        "valid_together": period and [format_time(moment) for moment in period],
    }


def _object(bundle: Bundle) -> dict[str, Any]:
    leaf = bundle.leaf
    issuer = {"issuer": str(leaf.issuer), "serial_hex": leaf.serial_hex}
    return {"file": bundle.file, **certificate_object(leaf), **issuer}


def _facts(name: str, leaf: EidasCertificate) -> list[tuple[str, str]]:
    organisation = leaf.organization_identifier.text if leaf.organization_identifier else "no organisation"
    return [
        (name, str(leaf.subject)),
        ("", f"{organisation}; {', '.join(leaf.roles) or 'no roles'}; SN {leaf.serial_hex}"),
    ]


def _together(one: Bundle, other: Bundle) -> str:
    period = valid_together(one.leaf, other.leaf)
    return "never" if period is None else " to ".join(map(format_time, period))
