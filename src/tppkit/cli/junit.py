"""A report on a client as JUnit XML, which CI servers show as tests: one for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tppkit._text import printable

if TYPE_CHECKING:
    from tppkit.sandbox.conformance import Report


def junit(report: Report, *, fail_on: str) -> str:
    """Return the report as JUnit XML.

    Args:
        report: the report.
        fail_on: broken rules of at least this severity are failures; the text of others is output of a passed test.
    """
    from tppkit.sandbox.conformance import RULES

    broken, failed = {one.rule.name: one for one in report.rules}, report.at_least(fail_on)
    names = dict.fromkeys([*RULES, *broken])
    suite = Element("testsuite", name="tppkit.conformance", tests=str(len(names)), failures=str(len(failed)))
    for name in names:
        case = SubElement(suite, "testcase", classname="tppkit.conformance", name=printable(name))
        one = broken.get(name)
        if one is None:
            continue
        text = "\n".join(map(printable, one.lines))
        if one in failed:
            SubElement(case, "failure", type=one.rule.severity, message=printable(one.rule.text)).text = text
        else:
            SubElement(case, "system-out").text = text
    indent(suite)
    return tostring(suite, encoding="unicode", xml_declaration=True)
