"""How commands tell a verdict: one line, what was proven, then the findings, the gravest first."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import click

from tppkit._text import printable
from tppkit.certificates.rules import first_error
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, finding_object, print_facts
from tppkit.codes import CODES
from tppkit.errors import Finding, Severity


def verdict_object(findings: Sequence[Finding], **proven: Any) -> dict[str, Any]:
    """A verdict as JSON has it: it fails when a finding is an error, by the code of the first."""
    error = first_error(tuple(findings))
    return {
        "verdict": "fails" if error else "holds",
        "code": error.code if error else None,
        **proven,
        "findings": [finding_object(finding) for finding in findings],
    }


def verdict_code(findings: Sequence[Finding]) -> int:
    """The exit code."""
    return DOES_NOT_HOLD if first_error(tuple(findings)) else HOLDS


def print_verdict(
    about: str, facts: Iterable[tuple[str, str]], findings: Sequence[Finding], *, without_mend: Container[str] = ()
) -> None:
    """A verdict for people; every text of a certificate is escaped.

    Args:
        about: what was judged, for the first line.
        facts: what was proven or compared, by name.
        findings: every finding, in any order.
        without_mend: codes of which what to do is not told, because it is this command.
    """
    error = first_error(tuple(findings))
    click.echo(f"{f'fails ({error.code})' if error else 'holds'}: {printable(about)}")
    print_facts(facts)
    for severity in Severity:
        group = [finding for finding in findings if finding.severity is severity]
        if group:
            click.echo(f"\n{len(group)} {severity}{'s' if len(group) > 1 else ''}")
        for finding in group:
            _print_finding(finding, mend=finding.code not in without_mend)


def _print_finding(finding: Finding, *, mend: bool) -> None:
    clause = f" ({finding.clause})" if finding.clause else ""
    place = "" if finding.offset is None else f" at byte {finding.offset}"
    click.echo(f"  {finding.code}{clause}")
    click.echo(f"    {printable(finding.message)}{place}")
    row = CODES.get(finding.code)
    if row and mend and finding.severity is not Severity.NOTICE:
        click.echo(f"    do: {row.mend}")
