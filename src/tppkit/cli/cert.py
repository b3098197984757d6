"""`tppkit cert`: read, check and compare certificates and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import click

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate, Use, check_certificate, check_pair, check_renewal
from tppkit.certificates.pair import valid_together
from tppkit.cli.cert_show import show
from tppkit.cli.certificates import (
    Bundle,
    certificate_object,
    password_option,
    passwords_option,
    read_bundle,
    read_bundles,
    read_password,
)
from tppkit.cli.output import (
    UNREADABLE,
    Result,
    UnreadableFile,
    at_option,
    failure_object,
    json_option,
    present,
    require_one_stdin,
    say_error,
    verdict,
)
from tppkit.cli.trust_options import TrustFiles, trust_facts, trust_object, trust_options
from tppkit.errors import Finding
from tppkit.trust import TrustMaterial, check_trust

_NO_CHAIN = "no chain was checked: neither --trust nor --trusted-lists was given"
_NAMES = {Use.QWAC: "QWAC", Use.QSEALC: "QSealC"}


@click.group()
def cert() -> None:
    """Read, check and compare eIDAS certificates.

    A certificate may be PEM (also bundles: the first certificate counts, the others are intermediates), DER, one-line base64 of either,
    URL-escaped PEM, RFC 9440 or PKCS#12; - is standard input.
    """


cert.add_command(show)


@cert.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--as", "use", required=True, type=click.Choice([use.value for use in Use]), help="The use that it must fit."
)
@at_option
@trust_options
@click.option(
    "--rules",
    "edition",
    metavar="EDITION",
    help="Apply this edition of TS 119 495, for example V1.4.1; by default the one in force when it was issued.",
)
@password_option
@json_option
def check(
    files: tuple[str, ...], use: str, at: datetime | None, trust: TrustFiles, edition: str | None, password_file: Path | None
) -> Result:  # fmt: skip
    """Check that each certificate fits its use and, with --trust or --trusted-lists, is trusted at a time.

    In a bundle the first certificate is checked; the others may be between it and an anchor. The worst exit code of all files
    counts.
    """
    require_one_stdin(*files)
    at = present(at)
    material = trust.load(at)
    password = read_password(password_file)
    results: list[Result | UnreadableFile] = []
    for name in files:
        try:
            results.append(_check(read_bundle(name, password), Use(use), at, edition, material))
        except UnreadableFile as e:
            results.append(e)
    values = [one.value if isinstance(one, Result) else failure_object(one) for one in results]
    worst = max(one.exit_code if isinstance(one, Result) else UNREADABLE for one in results)
    return Result(values[0] if len(files) == 1 else values, _all_lines(results), worst)


def _all_lines(results: list[Result | UnreadableFile]) -> Iterator[str]:
    separator: tuple[str, ...] = ()
    for one in results:
        if isinstance(one, UnreadableFile):
            say_error(one)
        else:
            yield from (*separator, *one.lines)
            separator = ("",)


def _check(bundle: Bundle, as_: Use, at: datetime, edition: str | None, material: TrustMaterial) -> Result:
    leaf = bundle.leaf
    findings = check_certificate(leaf, as_=as_, at=at, edition=edition)
    report = check_trust(leaf, as_=as_, at=at, material=material, intermediates=bundle.others)
    known = {(finding.code, finding.severity) for finding in findings}
    findings += tuple(finding for finding in report.findings if (finding.code, finding.severity) not in known)
    chain = report.path and [str(certificate.subject) for certificate in report.path.chain]
    identity = {
        **certificate_object(leaf),
        "nca_name": leaf.qc.psd2 and leaf.qc.psd2.nca_name,
        "nca_id": leaf.qc.psd2 and leaf.qc.psd2.nca_id,
    }
    proven = {
        "file": bundle.file,
        "at": format_time(at),
        "as": as_.value,
        "rules": edition,
        **identity,
        "chain": chain,
        **trust_object(report.path, report.status, material),
    }
    about = f"{bundle.file} as {_NAMES[as_]} at {format_time(at)}"
    if not material.has_anchors:
        return verdict(f"{about}; {_NO_CHAIN}", findings, proven=proven, facts=identity)
    facts = identity | {"chain": chain or "no valid chain"} | trust_facts(report.path, report.status, material)
    return verdict(about, findings, proven=proven, facts=facts)


@cert.command()
@click.argument("qwac", metavar="QWAC")
@click.argument("qsealc", metavar="QSEALC")
@passwords_option
@json_option
def pair(qwac: str, qsealc: str, password_files: tuple[Path, ...]) -> Result:
    """Check that a QWAC and a QSealC belong to one provider; show every difference that matters.

    `tppkit cert check` checks each against its own profile.
    """
    return _compare(check_pair, {"qwac": qwac, "qseal": qsealc}, password_files)


@cert.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@passwords_option
@json_option
def renewal(old: str, new: str, password_files: tuple[Path, ...]) -> Result:
    """Show the differences that matter to a bank that has stored details of OLD.

    It fails if NEW belongs to another organisation or is another kind of certificate; warnings concern some banks only.
    """
    return _compare(check_renewal, {"old": old, "new": new}, password_files)


def _compare(
    check_both: Callable[[EidasCertificate, EidasCertificate], tuple[Finding, ...]],
    files: dict[str, str],
    password_files: tuple[Path, ...],
) -> Result:
    first, second = read_bundles([*files.values()], password_files)
    one, other = first.leaf, second.leaf
    named = dict(zip(files, (first, second), strict=True))
    period = valid_together(one, other)
    together = period and [format_time(moment) for moment in period]
    identifiers = {leaf.organization and leaf.organization.text for leaf in (one, other)}
    authorities = {leaf.qc.psd2 and leaf.qc.psd2.nca_id for leaf in (one, other)}
    proven = {  # null where they differ, and the roles that both have
        "organization_identifier": identifiers.pop() if len(identifiers) == 1 else None,
        "nca_id": authorities.pop() if len(authorities) == 1 else None,
        "roles": [role for role in one.roles if role in other.roles],
        "valid_together": together,
        **{name: {"file": bundle.file, **certificate_object(bundle.leaf)} for name, bundle in named.items()},
    }
    return verdict(f"{first.file} and {second.file}", check_both(one, other), proven=proven)
