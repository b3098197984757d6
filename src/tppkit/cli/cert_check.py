"""`tppkit cert check`: whether a certificate fits its use, and is believed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.cli.cert_trust import Belief, TrustOptions, load_trust
from tppkit.cli.certificates import Bundle, password_option, read_bundles
from tppkit.cli.output import UNREADABLE, at_option, json_option, present, print_json
from tppkit.cli.revocation import crl_option, ocsp_option, revocation_facts
from tppkit.cli.verdict import print_verdict, verdict_code, verdict_object
from tppkit.trust import TrustedPath

_file = click.Path(path_type=Path)
_NAMES = {Use.QWAC: "QWAC", Use.QSEALC: "QSealC"}


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--as", "use", required=True, type=click.Choice([use.value for use in Use]), help="What it is used as.")
@at_option
@click.option("--trust", type=_file, metavar="FILE_OR_DIR", help="Authorities that it must chain to.")
@click.option(
    "--trusted-lists",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of trusted lists, by which it must be qualified.",
)
@crl_option
@ocsp_option
@click.option(
    "--rules",
    "edition",
    metavar="EDITION",
    help="Judge by an edition of TS 119 495 (V1.4.1); that of its issue by default.",
)
@password_option
@json_option
def check(
    file: str,
    use: str,
    at: datetime | None,
    trust: Path | None,
    trusted_lists: Path | None,
    crls: tuple[Path, ...],
    responses: tuple[Path, ...],
    edition: str | None,
    password_file: Path | None,
    as_json: bool,
) -> int:
    """Check that a certificate fits its use and, with --trust or --trusted-lists, that it is believed, at a time.

    In a bundle the first certificate is checked; the others may stand between it and an authority of --trust, or of the
    lists where --trust is not given.
    """
    as_, now = Use(use), present(None)
    at = at or now
    options = load_trust(trust, trusted_lists, (*crls, *responses), as_json=as_json)
    bundles = (
        None if options is None else read_bundles([file], [password_file] if password_file else [], as_json=as_json)
    )
    if options is None or bundles is None:
        return UNREADABLE
    (bundle,) = bundles
    findings = check_certificate(bundle.leaf, as_=as_, at=at, edition=edition)
    belief = options.judge(bundle, as_=as_, at=at, now=max(now, at))
    known = {(finding.code, finding.severity) for finding in findings}
    findings += tuple(finding for finding in belief.findings if (finding.code, finding.severity) not in known)
    if as_json:
        print_json(verdict_object(findings, **_proven(bundle, as_, at, edition), **belief.as_object()))
    else:
        facts = [*_facts(bundle.leaf), *_belief_facts(belief, options), ("sha256", bundle.leaf.sha256)]
        print_verdict(f"{bundle.file} as {_NAMES[as_]} at {format_time(at)}", facts, findings)
    return verdict_code(findings)


def _proven(bundle: Bundle, as_: Use, at: datetime, edition: str | None) -> dict[str, object]:
    leaf = bundle.leaf
    return {
        "file": bundle.file,
        "at": format_time(at),
        "as": as_.value,
        "rules": edition,
        "subject": str(leaf.subject),
        "sha256": leaf.sha256,
        "not_before": format_time(leaf.not_before),
        "not_after": format_time(leaf.not_after),
        "organization_identifier": leaf.organization_identifier and leaf.organization_identifier.text,
        "roles": list(leaf.roles),
        "nca_id": leaf.qc.psd2 and leaf.qc.psd2.nca_id,
    }


def _facts(leaf: EidasCertificate) -> list[tuple[str, str]]:
    return [
        ("subject", str(leaf.subject)),
        ("organisation", leaf.organization_identifier.text if leaf.organization_identifier else "none"),
        ("PSD2 roles", ", ".join(leaf.roles) or "none"),
        ("authority", f"{leaf.qc.psd2.nca_name} ({leaf.qc.psd2.nca_id})" if leaf.qc.psd2 else "none"),
        ("valid", f"{format_time(leaf.not_before)} to {format_time(leaf.not_after)}"),
    ]


def _belief_facts(belief: Belief, options: TrustOptions) -> list[tuple[str, str]]:
    is_asked = options.anchors is not None or options.lists is not None
    facts = _chain(belief.path, asked=is_asked)
    if is_asked:
        facts += revocation_facts(belief.path, asked=options.evidence is not None)
    if belief.status is not None:
        listing = belief.status.listing
        service = f", {listing.instance.name} ({listing.issuer.trusted_list.territory})" if listing else ""
        facts.append(("trusted list", f"qualified for {', '.join(belief.status.qualified_for) or 'nothing'}{service}"))
    return facts


def _chain(path: TrustedPath | None, *, asked: bool) -> list[tuple[str, str]]:
    if path is None:
        return [("chain", "none holds" if asked else "not checked: neither --trust nor --trusted-lists was given")]
    first, *above = [str(certificate.subject) for certificate in path.chain]
    return [("chain", first), *(("", f"issued by {name}") for name in above)]
