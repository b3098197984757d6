"""The report on the client under test: which rules of the documents its requests broke, with examples.

Rules are the rows of `conformance.toml`. A `Judge` of each interface looks at the exchanges of its hosts, in bounded memory. A rule is
counted only if the sandbox is certain: a false accusation is worse than a missing one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from tppkit._clock import Clock, format_time
from tppkit._text import printable, shortened
from tppkit.errors import FormatError, Severity
from tppkit.protocol.wire import safe_name
from tppkit.sandbox.control import Control
from tppkit.sandbox.exchange import Exchange
from tppkit.sandbox.request_log import shown_target, without_secrets

MAX_EXAMPLES = 5  # of a rule; later requests are only counted
_MAX_DETAIL = 300
_MAX_NAMES = 5

Example = Mapping[str, str]


class Rule(NamedTuple):
    """A rule that a client can break.

    Attributes:
        name: its stable name.
        severity: the weight of breaking it.
        source: where the documents have it.
        text: what the client did.
        advice: what to do instead.

    Example:
        rule = report.rules[0].rule
        print(rule.severity, rule.text, rule.advice)
    """

    name: str
    severity: Severity
    source: str
    text: str
    advice: str


def _read() -> Iterator[Rule]:
    text = files("tppkit.sandbox").joinpath("conformance.toml").read_text("utf-8")
    for name, row in tomllib.loads(text).items():
        yield Rule(name, **{**row, "severity": Severity(row["severity"])})


RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _read()})


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that the client broke.

    Attributes:
        rule: the rule.
        count: how often.
        examples: the first requests that broke it: `at`, `request`, `detail` and others; secrets and card numbers as `***`.

    Example:
        for broken in report.at_least("warning"):
            print(broken.rule.name, broken.count)
    """

    rule: Rule
    count: int
    examples: tuple[Example, ...]

    def as_object(self) -> dict[str, Any]:
        """The broken rule as JSON."""
        rule = self.rule
        return {
            "rule": rule.name, "severity": rule.severity.value, "source": rule.source, "count": self.count,
            "examples": [dict(one) for one in self.examples], "text": rule.text, "advice": rule.advice,
        }  # fmt: skip

    @property
    def lines(self) -> Iterator[str]:
        """The broken rule as text: what was done, how often, what to do, and the examples."""
        rule = self.rule
        yield f"{rule.severity}: {rule.name}, {self.count} {'time' if self.count == 1 else 'times'} ({rule.source})"
        yield f"  {rule.text} {rule.advice}"
        for one in self.examples:
            known = [one.get(name, "") for name in ("at", "request", "detail")]
            yield "    " + "  ".join(filter(None, known))


@dataclass(frozen=True, slots=True)
class Report:
    """The rules that the client under test broke.

    Attributes:
        rules: the broken rules, errors first.

    Example:
        report = sandbox.report()
        assert not report.at_least("error")
    """

    rules: tuple[BrokenRule, ...]

    def at_least(self, severity: Severity | str) -> tuple[BrokenRule, ...]:
        """Return the broken rules of this severity or a higher one: `error`, `warning` or `notice`."""
        allowed = _SEVERITIES[: _SEVERITIES.index(Severity(severity)) + 1]
        return tuple(one for one in self.rules if one.rule.severity in allowed)

    def as_object(self) -> dict[str, Any]:
        """The report as JSON: `{"rules": [{"rule", "severity", "source", "count", "examples", "text", "advice"}]}`."""
        return {"rules": [one.as_object() for one in self.rules]}

    @classmethod
    def from_object(cls, value: Any) -> Self:
        """Read the JSON of `as_object`.

        Raises:
            FormatError: `model.invalid`.
        """
        try:
            return cls(tuple(_broken_rule(row) for row in value["rules"]))
        except (LookupError, TypeError, ValueError, AttributeError) as e:
            raise FormatError("model.invalid", "this is not a report on a client") from e

    def __str__(self) -> str:
        """The report as text, one line or more for each broken rule."""
        return "\n".join(line for one in self.rules for line in one.lines) or "no rule was broken"


_SEVERITIES = list(Severity)  # the highest first


def _broken_rule(row: Mapping[str, Any]) -> BrokenRule:
    texts = (str(row.get(name, "")) for name in ("source", "text", "advice"))
    examples = tuple({str(name): str(text) for name, text in one.items()} for one in row["examples"])
    return BrokenRule(Rule(str(row["rule"]), Severity(row["severity"]), *texts), int(row["count"]), examples)


class Judge:
    """Looks for broken rules in the exchanges of some hosts. Its methods are called in the event loop.

    Attributes:
        hosts: the names of the listeners whose exchanges it gets.
    """

    hosts: tuple[str, ...] = ()

    def observe(self, exchange: Exchange) -> None:
        """Look at an exchange."""

    def remaining(self) -> Iterable[tuple[str, Example]]:
        """Return the rules that are broken if the run ends now, with an example of each."""
        return ()

    def clear(self) -> None:
        """Forget all exchanges."""


class Conformance:
    """Counts broken rules and keeps examples, in bounded memory.

    Args:
        now: the virtual clock.

    Attributes:
        now: the virtual clock.

    Example:
        conformance = Conformance(clock.now)
        conformance.add(judge)
        observers.append(conformance.observe)
        conformance.report().at_least("error")
    """

    def __init__(self, now: Clock) -> None:
        self.now = now
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[Example]] = {}
        self._judges: list[Judge] = []

    def add(self, *judges: Judge) -> None:
        """Add judges, which get the later exchanges of their hosts."""
        self._judges += judges

    def observe(self, exchange: Exchange) -> None:
        """Look at an exchange. See `Observer`."""
        if exchange.caller is not None:
            for rule, names in (("unknown-field", exchange.unknown_fields), ("unknown-query", exchange.unknown_query)):
                if names:
                    self.broken(rule, exchange, ", ".join(map(safe_name, sorted(names)[:_MAX_NAMES])))
        for judge in self._judges:
            if exchange.host in judge.hosts:
                judge.observe(exchange)

    def broken(self, rule: str, exchange: Exchange, detail: str = "") -> None:
        """Count a rule as broken by a request; `detail` says how."""
        if rule not in exchange.broken_rules:
            exchange.broken_rules += (rule,)
        if self._is_counted_only(rule):
            self._counts[rule] += 1
        else:
            self.count(rule, example_of(exchange, detail))

    def count(self, rule: str, example: Example) -> None:
        """Count a rule as broken, with this example."""
        if self._is_counted_only(rule):
            self._counts[rule] += 1
            return
        self._counts[rule] = self._counts.get(rule, 0) + 1
        self._examples.setdefault(rule, []).append(example)

    def _is_counted_only(self, rule: str) -> bool:
        return self._counts.get(rule, 0) >= MAX_EXAMPLES

    def report(self) -> Report:
        """Return the report on all exchanges since the start, or since `clear`."""
        counts, examples = dict(self._counts), {name: list(kept) for name, kept in self._examples.items()}
        for judge in self._judges:
            for name, example in judge.remaining():
                counts[name] = counts.get(name, 0) + 1
                if len(kept := examples.setdefault(name, [])) < MAX_EXAMPLES:
                    kept.append(example)
        broken = [
            BrokenRule(rule, counts[rule.name], tuple(examples[rule.name]))
            for rule in RULES.values()
            if rule.name in counts
        ]
        return Report(tuple(sorted(broken, key=lambda one: _SEVERITIES.index(one.rule.severity))))

    def clear(self) -> None:
        """Forget everything."""
        self._counts.clear()
        self._examples.clear()
        for judge in self._judges:
            judge.clear()

    @property
    def control(self) -> tuple[Control, ...]:
        """`GET /report`: the JSON of `Report`."""

        async def show(parameters: Mapping[str, str], body: Any) -> Any:
            return self.report().as_object()

        return (Control("GET", "/report", show),)


def example_of(exchange: Exchange, detail: str = "") -> Example:
    """Return a request as an example, without secrets, card numbers and body; `detail` may be empty."""
    request = f"{exchange.method} {shown_target(exchange)} {exchange.status} {exchange.code}"
    example = {"at": format_time(exchange.at), "host": exchange.host, "request": request.rstrip()}
    request_id = exchange.header("x-request-id")
    if request_id is not None:
        example["request_id"] = shortened(printable(without_secrets(request_id)), 64)
    return {**example, "detail": shortened(printable(without_secrets(detail)), _MAX_DETAIL)}
