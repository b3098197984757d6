"""The reader of a persona's file. It finds every fault with its line, and bounds size and depth."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from tppkit._encoding import shown
from tppkit._text import did_you_mean, printable
from tppkit.codes import CODES
from tppkit.protocol.adapted import States, places
from tppkit.protocol.psd2.consent import ConsentStatus
from tppkit.protocol.psd2.endpoints import AUTHORISATIONS, PSD2
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.protocol.psd2.rules import BankRules
from tppkit.protocol.toml_lines import NotToml, Path, lines_of, merged, parse, too_deep
from tppkit.protocol.wire import Json

MAX_PERSONA_BYTES = 64 * 1024
MAX_FAULTS = 100
_MAX_DEPTH = 8

APPROVAL_LINKS = ("scaRedirect", "scaOAuth", "startAuthorisation")
CONSENT_FIELDS = ("status", "consentStatus")
ANSWERS = ("none", "rfc9421", "cavage")  # how the bank signs its answers; the first by default
# What the handler of a row knows in addition to the fields of the document.
FACTS: Mapping[str, frozenset[str]] = {
    "initiate_payment": frozenset({"self", "status", "approval"}),
    "create_consent": frozenset({"self", "status", "approval"}),
    "consent": frozenset({"last_action"}),
    "accounts": frozenset({"accounts"}),
    "balances": frozenset({"accounts"}),
    "transactions": frozenset({"accounts"}),
}
# Names of a consent's states, and the status of the document for each.
CONSENT_STATES = {**{one.value: one.value for one in ConsentStatus}, "declined": "revoked", "terminated": "revoked"}
# The same for payments: a poll of a cancelled one has RJCT in the document.
CANCELLED = "cancelled"
PAYMENT_STATES = {**{one.value: one.value for one in TransactionStatus}, CANCELLED: "RJCT"}

_ROWS = {row.name: row for row in (*PSD2.endpoints, *AUTHORISATIONS)}
_SUCCESS = {"POST": (200, 201, 202), "GET": (200,), "DELETE": (200, 202, 204)}
PREFIX_FORM = re.compile(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]{1,64}){0,8}")
_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_PEER_CODE = re.compile(r"[A-Z0-9_]{1,64}")
_VALUE = re.compile(r"[ -~]{1,1024}")
_ANY = re.compile(r"[^\x00-\x1f\x7f]{1,500}")
_AMOUNT = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,2})?")
_COUNTRY = re.compile("[A-Z]{2}")
_FORMS = {
    PREFIX_FORM: "empty or a path such as /psd2/v1, without a slash at its end",
    _SLUG: "a name of lower-case letters, digits, dots and hyphens",
    _WORD: "a name of letters, digits, dots and hyphens",
    _HEADER: "the name of a header",
    _PEER_CODE: "a code such as ROLE_INVALID",
    _VALUE: "a text of 1 to 1024 printable ASCII characters",
    _ANY: "a text of 1 to 500 characters on one line",
    _AMOUNT: 'an amount as a text, such as "15000.00"',
    _COUNTRY: "two capital letters",
}
_Form = re.Pattern[str] | Collection[str]
_TOP: Mapping[str, _Form] = {
    "name": _SLUG, "source": _ANY, "profile": _SLUG, "prefix": PREFIX_FORM, "approval_link": APPROVAL_LINKS,
    "consent_field": CONSENT_FIELDS, "answers": ANSWERS,
}  # fmt: skip
# Headers with a meaning of their own for the seal, the connection or the interface.
_OWN = frozenset(
    (
        "authorization", "cache-control", "connection", "consent-id", "content-encoding", "content-length", "content-type", "date",
        "digest", "host", "signature", "tpp-signature-certificate", "transfer-encoding", "x-request-id",
    )
)  # fmt: skip
_DAY_S = 24 * 3600
_SPANS = {"inactivity": (1, 30 * _DAY_S), "instant_execution": (0, _DAY_S), "normal_execution": (0, 30 * _DAY_S)}
_COUNTS = {"page_size": (1, 1000), "consent_days": (1, 3650), "reads_per_day": (1, 1000)}


class PersonaFault(NamedTuple):
    """A fault of a persona's file.

    Attributes:
        line: its line, from 1; 0 for the file as a whole.
        text: what is wrong, and what is allowed.
    """

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


@dataclass(frozen=True, slots=True)
class RowChanges:
    """How a bank's endpoint differs. What a request must have is mapped to what a client sends by itself, or None.

    Attributes:
        success: the status of a success, or None for the document's.
        headers: required headers.
        query: required query parameters.
        fields: required fields of the body.
        optional_query: further query parameters that the bank knows.
        optional_fields: further fields that the bank knows.
        answer_headers: further headers of the answer.
        answer_fields: further fields of the answer.
    """

    success: int | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    query: Mapping[str, str | None] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    answer_fields: Mapping[str, Any] = field(default_factory=dict)
    optional_query: tuple[str, ...] = ()
    optional_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonaFile:
    """What a file without faults says; names as in the file."""

    name: str
    source: str
    profile: str
    prefix: str
    approval_link: str
    consent_field: str
    answers: str
    rules: BankRules
    refusals: Mapping[str, tuple[int, str]]
    payment_states: States
    consent_states: States
    endpoints: Mapping[str, RowChanges]


def read_persona(
    raw: bytes, *, shipped: Callable[[str], bytes], dialects: Collection[str]
) -> tuple[PersonaFile | None, tuple[PersonaFault, ...]]:
    """Read a file.

    Args:
        raw: TOML in UTF-8.
        shipped: returns the file that `based_on` names, `document` or `berlin-group`.
        dialects: the names that `profile` may have; empty does not check it.

    Returns:
        What it says, or None and its faults by line.
    """
    if len(raw) > MAX_PERSONA_BYTES:
        return None, (PersonaFault(0, f"the file has {len(raw)} bytes, and the limit is {MAX_PERSONA_BYTES}"),)
    try:
        table, text = parse(raw)
    except NotToml as e:
        return None, (PersonaFault(e.line, f"the file is not TOML: {shown(e.reason)}"),)
    reader = _Reader(lines_of(text), dialects)
    if (deep := too_deep(table, _MAX_DEPTH)) is not None:
        reader.fault(deep, f"nests deeper than {_MAX_DEPTH} levels")
        return None, tuple(reader.faults)
    base = table.pop("based_on", None)
    if base is not None:
        found = reader.text(("based_on",), base, ("document", "berlin-group"))
        inherited = _inherited(found or "document", shipped)
        table = merged({key: one for key, one in inherited.items() if key not in ("name", "source")}, table)
    read = reader.file(table)
    faults = sorted(set(reader.faults))
    if len(faults) > MAX_FAULTS:
        faults = [*faults[:MAX_FAULTS], PersonaFault(0, f"{len(faults) - MAX_FAULTS} more faults")]
    return (None if faults else read), tuple(faults)


class _Reader:
    """Reads the tables of a file and collects the faults.

    Args:
        lines: the line of each key.
        dialects: the names that `profile` may have.
    """

    def __init__(self, lines: Mapping[Path, int], dialects: Collection[str]) -> None:
        self._lines, self._dialects = lines, dialects
        self.faults: list[PersonaFault] = []

    def fault(self, path: Path, text: str) -> None:
        """Add a fault of a key, at the line of the key or of the nearest table."""
        known = (self._lines.get(path[:length]) for length in range(len(path), 0, -1))
        name = printable(".".join(path)[:120])
        self.faults.append(PersonaFault(next(filter(None, known), 0), f"{name} {text}"))

    def near(self, name: str, known: Iterable[str]) -> str:
        """Return a suggestion for a mistyped name; empty after many faults, because a search takes milliseconds."""
        return did_you_mean(name, known) if len(self.faults) < MAX_FAULTS else ""

    def file(self, table: Mapping[str, Any]) -> PersonaFile:
        """Read the whole file; the value is used only if there are no faults."""
        tables = ("rules", "refusals", "payment_status", "consent_status", "endpoints")
        self.known((), table, (*_TOP, *tables))
        texts, table = dict.fromkeys(_TOP, ""), {"answers": ANSWERS[0], **table}
        for name, form in {**_TOP, "profile": self._dialects or _TOP["profile"]}.items():
            if name in table:
                texts[name] = self.text((name,), table[name], form)
            else:
                self.faults.append(PersonaFault(0, f"{name} is missing; based_on gives the values of another persona"))
        parts = {name: self.table((name,), table.get(name, {})) for name in tables}
        self.known(("endpoints",), parts["endpoints"], (*_ROWS, "all"))
        endpoints = {
            name: self.endpoint(name, self.table(("endpoints", name), one))
            for name, one in parts["endpoints"].items()
            if name in _ROWS or name == "all"
        }
        return PersonaFile(
            **texts, rules=self.rules(parts["rules"]), refusals=self.refusals(parts["refusals"]), endpoints=endpoints,
            payment_states=self.states("payment_status", parts["payment_status"], PAYMENT_STATES),
            consent_states=self.states("consent_status", parts["consent_status"], CONSENT_STATES),
        )  # fmt: skip

    def table(self, path: Path, value: Any) -> Mapping[str, Any]:
        """Return a table; an empty one if it is something else."""
        if isinstance(value, dict):
            return value
        self.fault(path, "is not a table")
        return {}

    def text(self, path: Path, value: Any, form: _Form) -> str:
        """Return a text of a form, or one of several texts; empty if it is another one."""
        if isinstance(value, str) and (form.fullmatch(value) if isinstance(form, re.Pattern) else value in form):
            return value
        if isinstance(form, re.Pattern):
            allowed = _FORMS[form]
        else:
            near = self.near(value, form) if isinstance(value, str) else ""
            allowed = f"one of {', '.join(form)}{near}"
        self.fault(path, f"is {_seen(value)}, not {allowed}")
        return ""

    def known(self, path: Path, table: Mapping[str, Any], allowed: Collection[str]) -> None:
        """Report the unknown keys of a table."""
        for name in table:
            if name not in allowed:
                near = self.near(name, allowed)
                self.fault((*path, name), f"is not a key; known keys are {', '.join(allowed)}{near}")

    def number(self, path: Path, value: Any, lowest: int, highest: int) -> int:
        """Return a whole number within limits."""
        if type(value) is int and lowest <= value <= highest:
            return value
        self.fault(path, f"is {_seen(value)}, not a whole number from {lowest} to {highest}")
        return lowest

    def rules(self, table: Mapping[str, Any]) -> BankRules:
        """Read the bank's rules; durations in seconds."""
        self.known(("rules",), table, (*_SPANS, *_COUNTS, "instant_cap", "instant_unreachable", "technical_validation"))
        read: dict[str, Any] = {}
        for name, value in table.items():
            path = ("rules", name)
            if name in _SPANS:
                read[name] = timedelta(seconds=self.number(path, value, *_SPANS[name]))
            elif name in _COUNTS:
                read[name] = self.number(path, value, *_COUNTS[name])
            elif name == "instant_cap":
                if self.text(path, value, _AMOUNT):
                    read[name] = Decimal(value)
            elif name == "instant_unreachable":
                read[name] = frozenset(self.texts(path, value, _COUNTRY))
            elif name == "technical_validation":
                read[name] = value
                if not isinstance(value, bool):
                    self.fault(path, f"is {_seen(value)}, not true or false")
        return BankRules(**read)

    def texts(self, path: Path, value: Any, form: re.Pattern[str]) -> tuple[str, ...]:
        """Return an array of different texts of a form."""
        if not (isinstance(value, list) and all(isinstance(one, str) and form.fullmatch(one) for one in value)):
            self.fault(path, f"is {_seen(value)}, not an array of texts, each of them {_FORMS[form]}")
        elif len(set(value)) != len(value):
            self.fault(path, "has a text twice")
        else:
            return tuple(value)
        return ()

    def refusals(self, table: Mapping[str, Any]) -> Mapping[str, tuple[int, str]]:
        """Read the status and the code of refusals, by the codes of this package or prefixes of them."""
        prefixes = {row.code for row in PSD2.refusals.rows}
        read = {}
        for code, value in table.items():
            path = ("refusals", code)
            is_refused = any(row.fits(code) for row in PSD2.refusals.rows)
            if code not in prefixes and not (code in CODES and is_refused):
                self.fault(path, f"is not a code of a refusal{self.near(code, (*prefixes, *CODES))}")
            if not (isinstance(value, list) and len(value) == 2):
                self.fault(path, f"is {_seen(value)}, not [status, code]")
                continue
            status = self.number(path, value[0], 400, 599)
            read[code] = (status, self.text(path, value[1], _PEER_CODE))
        return read

    def states(self, name: str, table: Mapping[str, Any], meanings: Mapping[str, str]) -> States:
        """Read the bank's names of states: a text, or an array whose first text is written and whose texts are all read."""
        self.known((name,), table, tuple(meanings))
        written: dict[str, str] = {}
        read: dict[str, str] = {}
        for state, meaning in meanings.items():
            names = table.get(state, state if meaning == state else meaning)
            names = [names] if isinstance(names, str) else names
            path = (name, state)
            if names == []:
                self.fault(path, "has no text")
            found = self.texts(path, names, _WORD)
            written[state] = found[0] if found else state
            for one in found:
                if read.setdefault(one, meaning) != meaning and state != CANCELLED:
                    self.fault(path, f"has {_seen(one)}, which is also the name of {read[one]}")
        changed = {state: one for state, one in written.items() if one != meanings[state]}
        return States(changed, {one: meaning for one, meaning in read.items() if one != meaning})

    def endpoint(self, name: str, table: Mapping[str, Any]) -> RowChanges:
        """Read how an endpoint differs."""
        path, row = ("endpoints", name), _ROWS.get(name)
        keys = ["required_headers", "default_headers", "answer_headers"]
        if row is not None:
            keys += ["success", "required_query", "default_query", "optional_query"]
            keys += ["required_fields", "default_fields", "optional_fields"] if row.request.media_type else []
            keys += ["answer_fields"] if row.answer.media_type else []
        self.known(path, table, keys)
        success = table.get("success")
        allowed = _SUCCESS[row.method] if row is not None else ()
        if success is not None and row is not None and not (type(success) is int and success in allowed):
            self.fault((*path, "success"), f"is {_seen(success)}, not one of {', '.join(map(str, allowed))}")
        if success == 204 and table.get("answer_fields"):
            self.fault((*path, "answer_fields"), "contradicts success = 204, an answer without a body")
        optional = [
            self.texts((*path, key), table.get(key, []), _WORD) for key in ("optional_query", "optional_fields")
        ]
        further = table.get("answer_fields")
        if isinstance(further, dict):
            self.table((*path, "answer_fields", "_links"), further.get("_links", {}))
        request, answer = (row.request, row.answer) if row is not None else (None, None)
        return RowChanges(
            success, self.required(path, table, "headers"), self.required(path, table, "query"),
            self.required(path, table, "fields", request), self.constants(path, table, "answer_headers"),
            self.constants(path, table, "answer_fields", answer), *optional,
        )  # fmt: skip

    def required(self, path: Path, table: Mapping[str, Any], what: str, body: Any = None) -> Mapping[str, Any]:
        """Read `required_X` and `default_X`: what a request must have, with what a client sends by itself."""
        key = f"required_{what}"
        named = self.texts((*path, key), table.get(key, []), _HEADER if what == "headers" else _WORD)
        if what == "headers":
            self.not_own((*path, key), named)
        return {**dict.fromkeys(named), **self.constants(path, table, f"default_{what}", body)}

    def constants(self, path: Path, table: Mapping[str, Any], key: str, body: Any = None) -> Mapping[str, Any]:
        """Read `default_X` or `answer_X`: texts, or for fields values of JSON, which the `body` must not have by itself."""
        read = self.table((*path, key), table.get(key, {}))
        present = _present(body)
        for name, value in read.items():
            place = (*path, key, name)
            self.text(place, name, _HEADER if key.endswith("_headers") else _WORD)
            if key.endswith("_fields"):
                self.json(place, value)
            else:
                self.text(place, value, _VALUE)
            if key.startswith("answer_"):
                self.places(place, value)
            if name in present and not (key == "answer_fields" and isinstance(value, dict)):  # tables are merged
                self.fault(place, "has no effect, because every body has this field")
        if key.endswith("_headers"):
            self.not_own((*path, key), read)
        return read

    def not_own(self, path: Path, names: Iterable[str]) -> None:
        """Report headers that have a meaning of their own."""
        for own in sorted(_OWN.intersection(name.lower() for name in names)):
            self.fault(path, f"has {own}, which client or sandbox write themselves")

    def json(self, path: Path, value: Any) -> None:
        """Report values that JSON does not have, such as dates."""
        if isinstance(value, dict):
            for name, one in value.items():
                self.json((*path, name), one)
        elif isinstance(value, list):
            for one in value:
                self.json(path, one)
        elif not (isinstance(value, str | bool) or (type(value) is int and abs(value) < 2**53)) and not (
            isinstance(value, float) and math.isfinite(value)
        ):
            self.fault(path, f"is {_seen(value)}, which JSON does not have; write it as a text")

    def places(self, path: Path, content: Any) -> None:
        """Report places that no fact of the endpoint fills."""
        known = FACTS.get(path[1], frozenset())
        for one in sorted(places(content) - known):
            allowed = f"known places are {', '.join(sorted(known))}" if known else "this endpoint has no places"
            self.fault(path, f"has the place {{{one}}}; {allowed}")


def _present(body: Any) -> set[str]:
    fields = body.model.model_fields.items() if isinstance(body, Json) else ()
    return {one.alias or name for name, one in fields if one.is_required()} - {"_links"}


def _inherited(name: str, shipped: Callable[[str], bytes]) -> dict[str, Any]:
    table = tomllib.loads(shipped(name).decode())
    base = table.pop("based_on", None)
    return table if base is None else merged(_inherited(base, shipped), table)


def _seen(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    if type(value) is int and abs(value) >= 2**64:  # str() of a very long number fails
        return "a very large number"
    return shown(value if isinstance(value, str) else str(value))
