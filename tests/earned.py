"""The rules that clients of a test broke: exactly those of its marker `earns`, which most tests do not have."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tppkit.sandbox import Report


def require_earned(request: pytest.FixtureRequest, reports: Iterable[Report]) -> None:
    """Compare the reports of the sandboxes of a test with its marker."""
    marker, reports = request.node.get_closest_marker("earns"), list(reports)
    found = {one.rule.name for report in reports for one in report.rules}
    assert found == set(marker.args if marker else ()), "\n".join(map(str, reports))
