"""`tppkit cert check`: whether certificates fit their use and are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.cli.certificates import (
    Bundle,
    certificate_object,
    password_option,
    read_bundle,
    read_password,
)
from tppkit.cli.output import (
    HOLDS,
    UNREADABLE,
    UnreadableFile,
    at_option,
    failure_object,
    json_option,
    present,
    print_json,
    reading,
    require_one_stdin,
    say_error,
)
from tppkit.cli.trust_options import (
    listing_facts,
    listing_object,
    path_facts,
    revocation_facts,
    revocation_object,
    trust_options,
)
from tppkit.cli.verdict import print_verdict, verdict_code, verdict_object
from tppkit.trust import RevocationEvidence, TrustMaterial, TrustReport, check_trust, load_revocation, load_trust

_NO_CHAIN = "no chain was checked: neither --trust nor --trusted-lists was given"
_NAMES = {Use.QWAC: "QWAC", Use.QSEALC: "QSealC"}


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--as", "use", required=True, type=click.Choice([use.value for use in Use]), help="What it is used as.")
@at_option
@trust_options
@click.option(
    "--rules",
    "edition",
    metavar="EDITION",
    help="Judge by an edition of TS 119 495 (V1.4.1); that of its issue by default.",
)
@password_option
@json_option
def check(
    files: tuple[str, ...],
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
    """Check that each certificate fits its use and, with --trust or --trusted-lists, is trusted at a time.

    In a bundle the first certificate is checked; the others may be between it and an anchor. The worst exit code of all files
    counts.
    """
    require_one_stdin(*files)
    now = present(None)
    at = at or now
    answers: RevocationEvidence | None = None
    for file in (*crls, *responses):
        with reading(file):
            answers = (answers or RevocationEvidence()) + load_revocation([file])
    password = read_password(password_file)
    material = load_trust(trust=trust, trusted_lists=trusted_lists, answers=answers, now=max(now, at))
    task = _Task(Use(use), at, edition, material)
    entries: list[Mapping[str, Any]] = []
    worst = HOLDS
    for name in files:
        try:
            bundle = read_bundle(name, password)
        except UnreadableFile as e:
            entries.append(failure_object(e))
            worst = max(worst, UNREADABLE)
            if not as_json:
                say_error(e)
        else:
            if not as_json and any("verdict" in entry for entry in entries):
                click.echo()
            entry, code = task.judge(bundle, as_json=as_json)
            entries.append(entry)
            worst = max(worst, code)
    if as_json:
        print_json(entries[0] if len(files) == 1 else entries)
    return worst


class _Task(NamedTuple):
    """The settings for all files."""

    as_: Use
    at: datetime
    edition: str | None
    material: TrustMaterial

    def judge(self, bundle: Bundle, *, as_json: bool) -> tuple[Mapping[str, Any], int]:
        """The verdict as JSON and its exit code; printed unless it is asked for as JSON."""
        findings = check_certificate(bundle.leaf, as_=self.as_, at=self.at, edition=self.edition)
        report = check_trust(bundle.leaf, as_=self.as_, at=self.at, material=self.material, intermediates=bundle.others)
        known = {(finding.code, finding.severity) for finding in findings}
        findings += tuple(finding for finding in report.findings if (finding.code, finding.severity) not in known)
        if not as_json:
            facts = [*_facts(bundle.leaf), *self._trust_facts(report), ("sha256", bundle.leaf.sha256)]
            about = f"{bundle.file} as {_NAMES[self.as_]} at {format_time(self.at)}"
            print_verdict(about if self.material.has_anchors else f"{about}; {_NO_CHAIN}", facts, findings)
        proven = _proven(bundle, self.as_, self.at, self.edition) | {
            "chain": report.path and [str(certificate.subject) for certificate in report.path.chain],
            "revocation": revocation_object(report.path, asked=self.material.revocation is not None),
            "trusted_list": listing_object(report.status),
        }
        return verdict_object(findings, **proven), verdict_code(findings)

    def _trust_facts(self, report: TrustReport) -> list[tuple[str, str]]:
        if not self.material.has_anchors:
            return []
        revocation = revocation_facts(report.path, asked=self.material.revocation is not None)
        return [*path_facts(report.path), *revocation, *listing_facts(report.status)]


def _proven(bundle: Bundle, as_: Use, at: datetime, edition: str | None) -> dict[str, object]:
    leaf = bundle.leaf
    question = {"file": bundle.file, "at": format_time(at), "as": as_.value, "rules": edition}
    return {**question, **certificate_object(leaf), "nca_id": leaf.qc.psd2 and leaf.qc.psd2.nca_id}


def _facts(leaf: EidasCertificate) -> list[tuple[str, str]]:
    return [
        ("subject", str(leaf.subject)),
        ("organisation", leaf.organization_identifier.text if leaf.organization_identifier else "none"),
        ("PSD2 roles", ", ".join(leaf.roles) or "none"),
        ("authority", f"{leaf.qc.psd2.nca_name} ({leaf.qc.psd2.nca_id})" if leaf.qc.psd2 else "none"),
        ("valid", f"{format_time(leaf.not_before)} to {format_time(leaf.not_after)}"),
    ]
