"""Print verdicts: one line, what was proven, then the findings, the most severe first."""

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
    """Return a verdict as a JSON object: it fails if a finding is an error, with the code of the first one."""
    error = first_error(tuple(findings))
    return {
        "verdict": "fails" if error else "holds",
        "code": error.code if error else None,
        **proven,
        "findings": [finding_object(finding) for finding in findings],
    }


def verdict_code(findings: Sequence[Finding]) -> int:
    """Return the exit code of a verdict."""
    return DOES_NOT_HOLD if first_error(tuple(findings)) else HOLDS


def colored(text: str, *, holds: bool) -> str:
    """Return a text in green or red; `click.echo` removes the colours where they are not wanted."""
    return click.style(text, fg="green" if holds else "red", bold=True)


def print_verdict(
    about: str, facts: Iterable[tuple[str, str]], findings: Sequence[Finding], *, without_advice: Container[str] = ()
) -> None:
    """Print a verdict; every text of a certificate is escaped.

    Args:
        about: what was judged, for the first line.
        facts: what was proven or compared, by name.
        findings: every finding, in any order.
        without_advice: codes whose advice is left out, because it names the command that is running.
    """
    error = first_error(tuple(findings))
    verdict = colored(f"fails ({error.code})" if error else "holds", holds=not error)
    click.echo(f"{verdict}: {printable(about)}")
    print_facts(facts)
    for severity in Severity:
        group = [finding for finding in findings if finding.severity is severity]
        if group:
            click.echo(f"\n{len(group)} {severity}{'s' if len(group) > 1 else ''}")
        for finding in group:
            _print_finding(finding, with_advice=finding.code not in without_advice)


def _print_finding(finding: Finding, *, with_advice: bool) -> None:
    clause = f" ({finding.clause})" if finding.clause else ""
    place = "" if finding.offset is None else f" at byte {finding.offset}"
    click.echo(f"  {finding.code}{clause}")
    click.echo(f"    {printable(finding.message)}{place}")
    row = CODES.get(finding.code)
    if row and with_advice and finding.severity is not Severity.NOTICE:
        click.echo(f"    do: {row.mend}")
