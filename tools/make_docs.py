"""Write the reference pages in docs/reference, or check that they are current.

    python tools/make_docs.py [--check]

Pages come from the tables, from `--help` and, in docs/reference/api, from `__all__`; nobody writes them by hand.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

import performance
from public_names import Name, public_names
from tppkit.certificates.algorithms import NEVER, policy
from tppkit.certificates.editions import CALENDAR, NOT_FIXED
from tppkit.certificates.rules import RULES
from tppkit.cli.main import main as root_command
from tppkit.codes import CODES, UNSTABLE
from tppkit.protocol.assumptions import ASSUMPTIONS, Assumption
from tppkit.protocol.endpoint import Auth
from tppkit.protocol.gateway.endpoints import EXTENSIONS, GATEWAY, VAULT
from tppkit.protocol.gateway.orders import EXTERNAL_NAMES
from tppkit.protocol.gateway.payments import STATES
from tppkit.protocol.gateway.states import AUTHORISATION, ORDER, PAYMENT_LINK, SETUP_TOKEN, TRANSACTION
from tppkit.protocol.gateway.webhooks import MAX_ATTEMPTS, RETRY_AFTER_S, RETRY_TIMEOUT_S, TIMEOUT_S
from tppkit.protocol.legacy.endpoints import CALLBACKS, LEGACY, SCAN
from tppkit.protocol.legacy.money import BalanceBody
from tppkit.protocol.legacy.rules import CATEGORIES
from tppkit.protocol.machine import Machine
from tppkit.protocol.psd2 import PSD2, load_persona
from tppkit.protocol.psd2.consent import CONSENT
from tppkit.protocol.psd2.endpoints import AUTHORISATIONS
from tppkit.protocol.psd2.payment import PAYMENT
from tppkit.protocol.refusals import Refusals
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import Json, JsonArray
from tppkit.sandbox.conformance import RULES as CLIENT_RULES
from tppkit.sandbox.openapi import openapi_documents
from tppkit.seals import ANSWER_PROFILES, PROFILES, DigestOf, FieldOrder, KeyIdForm, KeyIdStyle, SealProfile
from tppkit.seals.diagnose.mistakes import MISTAKES

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTE = "Written by tools/make_docs.py (make docs); change the source, not this page."
NOTES = {".md": f"<!-- {NOTE} -->\n\n", ".rst": f".. {NOTE}\n\n"}


def codes() -> Iterator[str]:
    """Every code."""
    yield "# Codes\n\nEvery failure and finding has a code; messages are for people and may change."
    yield "The message of a `ConfigurationError` names what to correct, so codes that only settings cause are not listed.\n"
    groups = ", ".join(f"`{group}.`" for group in sorted(UNSTABLE))
    yield "Codes are stable: later versions keep each code and its meaning. Only a new major version removes one."
    yield f"Not stable are the codes of tools for development, which begin with {groups}: they may change in any version.\n"
    yield "| code | meaning | what to do |\n|---|---|---|"
    for code, row in sorted(CODES.items()):
        yield f"| `{code}` | {_cell(row.meaning)} | {_cell(row.hint)} |"


def assumptions() -> Iterator[str]:
    """Every open point of the documents."""
    yield "# Assumptions\n\nThe open points of the interface documents, and our choices. All else follows the documents."
    yield "\n## Interfaces\n"
    yield from _assumptions(row for row in ASSUMPTIONS if row.interface != "dialects")
    yield "\n## Dialects of sealing\n\nThe open points of the sources of [other banks' dialects](profiles.md), and our choices.\n"
    yield from _assumptions(row for row in ASSUMPTIONS if row.interface == "dialects")


def _assumptions(rows: Iterable[Assumption]) -> Iterator[str]:
    yield "| id | interface | open point | our choice | reason | to change it |\n|---|---|---|---|---|---|"
    for row in rows:
        yield f"| `{row.id}` | {row.interface} | {_cell(row.open)} | {_cell(row.choice)} | {_cell(row.why)} | {_cell(row.change)} |"


def psd2() -> Iterator[str]:
    """The PSD2 interface."""
    yield _heading("PSD2 interface", "psd2")
    yield "| name | method | path | signed | role | success |\n|---|---|---|---|---|---|"
    for row in (*PSD2.endpoints, *AUTHORISATIONS):
        signed = "yes" if row.auth is Auth.SEAL else "no"
        yield f"| `{row.name}` | {row.method} | `{row.path}` | {signed} | {row.role or '-'} | {row.success} |"
    yield '\nThe last two exist only at banks whose persona has `approval_link = "startAuthorisation"`.'
    yield from _machine("Payment", PAYMENT)
    yield from _machine("Consent", CONSENT)
    yield from _refusals(PSD2.refusals, "tppMessages code")


def legacy() -> Iterator[str]:
    """The legacy interface."""
    yield _heading("Legacy interface", "legacy")
    yield "| name | method | path | proof | body | answer |\n|---|---|---|---|---|---|"
    for row in (*LEGACY.endpoints, SCAN):
        body, answer = _body(row.request), "page" if row is SCAN else _body(row.answer)
        yield f"| `{row.name}` | {row.method} | `{row.path}` | {row.auth} | {body} | {answer} |"
    yield "\nThe last row is a page for the customer's browser. The host serves all other rows.\n"
    yield "## Callbacks\n\nThe service signs each of these requests.\n"
    yield "| kind | method | to | body | answer |\n|---|---|---|---|---|"
    for sent in CALLBACKS:
        body, answer = (f"`{model.__name__}`" if model else "-" for model in (sent.body, sent.answer))
        yield f"| {sent.kind} | {sent.method} | {sent.address} | {body} | {answer} |"
    yield "\n## Categories\n\n| tcc | means |\n|---|---|"
    for code, text in CATEGORIES.items():
        yield f"| {code} | {text} |"
    yield "\nAny other code is a general transfer.\n"
    yield from _refusals(LEGACY.refusals, "error code")


def gateway() -> Iterator[str]:
    """The payment gateway and its vault."""
    yield _heading("Payment gateway", "gateway")
    yield "Every row requires HTTP Basic with the API key as user name. The vault has its own address.\n"
    yield "| name | at | method | path | body | answer | success |\n|---|---|---|---|---|---|---|"
    for interface in (GATEWAY, VAULT):
        for row in interface.endpoints:
            at = "sandbox only" if row in EXTENSIONS else interface.name
            query = "".join(f"?{wanted.name}={wanted.only}" for wanted in row.query)
            bodies = f"{_body(row.request)} | {_body(row.answer)}"
            yield f"| `{row.name}` | {at} | {row.method} | `{row.path}{query}` | {bodies} | {row.success} |"
    yield "\n## External 3-D Secure\n\n| field | in requests | in answers |\n|---|---|---|"
    for name in EXTERNAL_NAMES:
        yield f"| `{name.field}` | {name.request} | {name.answer} |"
    yield "\n## States for account funding\n"
    for country, states in STATES.items():
        yield f"- {country}: {' '.join(sorted(states))}"
    yield "\n## Webhooks\n\n| attempt | to connect | for the answer | next attempt after a failure |\n|---|---|---|---|"
    yield f"| 1 | {TIMEOUT_S:g} s | {TIMEOUT_S:g} s | {RETRY_AFTER_S:g} s |"
    yield f"| 2 to {MAX_ATTEMPTS - 1} | {RETRY_TIMEOUT_S:g} s | {RETRY_TIMEOUT_S:g} s | {RETRY_AFTER_S:g} s |"
    yield f"| {MAX_ATTEMPTS} | {RETRY_TIMEOUT_S:g} s | {RETRY_TIMEOUT_S:g} s | none |"
    machines = {
        "Order": ORDER,
        "Transaction": TRANSACTION,
        "Authorisation": AUTHORISATION,
        "Payment link": PAYMENT_LINK,
    }
    for title, machine in {**machines, "Setup token": SETUP_TOKEN}.items():
        yield from _machine(title, machine)
    yield from _refusals(GATEWAY.refusals, "error code")


def _heading(title: str, name: str) -> str:
    return f"# {title}\n\nIn OpenAPI 3.1, with headers, bodies and examples: [{name}-openapi.json]({name}-openapi.json).\n\n## Endpoints\n"


def _body(body: Any) -> str:
    if isinstance(body, CsvRows):
        return f"CSV of `{body.model.__name__}`"
    if isinstance(body, BalanceBody):
        return "object of currency codes and numbers"
    array = "array of " if isinstance(body, JsonArray) else ""
    return f"{array}`{body.model.__name__}`" if isinstance(body, Json | JsonArray) else "-"


def _refusals(table: Refusals, title: str) -> Iterator[str]:
    yield "## Refusals\n\nA code that ends with a dot matches every code with this prefix. The longest match applies.\n"
    yield f"| code | HTTP | {title} |\n|---|---|---|"
    for code, status, peer_code in table.rows:
        yield f"| `{code}` | {status} | {peer_code} |"


def _machine(title: str, machine: Machine[Any, Any]) -> Iterator[str]:
    yield f"\n## {title}\n\n| from | trigger | to |\n|---|---|---|"
    for (state, trigger), after in machine.moves.items():
        yield f"| {state} | {trigger} | {after} |"
    yield f"\nInitial: {machine.initial}. Final: {', '.join(sorted(machine.final))}.\n"
    yield f"```mermaid\n{chr(10).join(_diagram(machine))}\n```\n"


def _diagram(machine: Machine[Any, Any]) -> Iterator[str]:
    """The moves as arrows; triggers that lead from one state to the same other share an arrow."""
    arrows: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (state, trigger), after in machine.moves.items():
        arrows[state, after].append(trigger)
    yield f"stateDiagram-v2\n    direction LR\n    [*] --> {_state(machine.initial)}"
    for state in dict.fromkeys(machine.moves.values()):
        if _state(state) != state:
            yield f'    state "{state}" as {_state(state)}'
    for (state, after), triggers in arrows.items():
        if state == after:  # the text at a loop would lie on that of another arrow
            yield f"    note left of {_state(state)}: {', '.join(triggers)} keeps it {state}"
        else:
            yield f"    {_state(state)} --> {_state(after)}: {', '.join(triggers)}"
    for state in sorted(machine.final):
        yield f"    {_state(state)} --> [*]"


def _state(state: str) -> str:
    """A state as Mermaid names it: a hyphen is a part of an arrow."""
    return state.replace("-", "_")


def rules() -> Iterator[str]:
    """Every rule that certificates are judged by."""
    yield "# Rules for certificates\n\nThe rules of `check_certificate`, in its order. A rule applies to certificates issued on or after"
    yield "the day of its edition; `edition=` (`cert check --rules V1.4.1`) uses the date of that edition of TS 119 495."
    yield "Banks and `verify_request` refuse a certificate only if it breaks an essential rule.\n"
    yield "| code | use | severity | essential | source | applies | meaning |\n|---|---|---|---|---|---|---|"
    for rule in RULES:
        uses = ", ".join(sorted(rule.uses))
        since = f"from {rule.since.begins:%Y-%m-%d} ({rule.since})" if rule.since else ""
        until = f"before {rule.until.begins:%Y-%m-%d} ({rule.until})" if rule.until else ""
        counts = " ".join(part for part in (since, until) if part) or "always"
        essential = "yes" if rule.essential else ""
        meaning = CODES[rule.code].meaning
        yield f"| `{rule.code}` | {uses} | {rule.severity} | {essential} | {_cell(rule.clause)} | {counts} | {_cell(meaning)} |"
    yield "\nThe days are those of the [calendar](calendar.md)."


def calendar() -> Iterator[str]:
    """Every dated change that rules and verdicts depend on."""
    yield "# Calendar of change\n\nWhat decides about certificates and seals from which day on. The rules read the rows of"
    yield "`tppkit/certificates/calendar.toml` and `tppkit/certificates/algorithms.toml`, so a change is a row there.\n"
    yield "## Certificates\n\nThe first day of issue to which a change applies.\n"
    yield "| from | document | what changes | source | read |\n|---|---|---|---|---|"
    for row in CALENDAR:
        begins = "no day is fixed" if row.begins == NOT_FIXED else f"{row.begins:%Y-%m-%d}"
        yield f"| {begins} | {row} | {_cell(row.what)} | {_cell(row.source)} | {row.read:%Y-%m-%d} |"
    yield "\n## Signature algorithms\n\nThe first moment at which a signature is not accepted any more, unless a time stamp proves that"
    yield "it existed before.\n"
    yield "| until | algorithm | key | source |\n|---|---|---|---|"
    for algorithm in sorted(policy(), key=lambda one: one.end):
        end = "no end is planned" if algorithm.end == NEVER else f"{algorithm.end:%Y-%m-%d}"
        bits = f"from {algorithm.min_bits} bits" if algorithm.min_bits else "any"
        yield f"| {end} | {algorithm.scheme} | {bits} | {_cell(algorithm.source)} |"


def conformance() -> Iterator[str]:
    """Every rule of the report on a client."""
    yield "# Rules for clients\n\nWhat `tppkit sandbox report` finds in the requests of a client.\n"
    yield "| rule | severity | source | what the client did | what to do |\n|---|---|---|---|---|"
    for rule in CLIENT_RULES.values():
        yield f"| `{rule.name}` | {rule.severity} | {_cell(rule.source)} | {_cell(rule.text)} | {_cell(rule.advice)} |"


def diagnose() -> Iterator[str]:
    """Every mistake that a diagnosis knows."""
    yield "# Known mistakes\n\nWhat `tppkit seal diagnose` looks for, one at a time, and names only if it is proven.\n"
    yield "| name | in | what was done | do |\n|---|---|---|---|"
    for row in MISTAKES.values():
        yield f"| `{row.name}` | {row.part.value} | {_cell(row.cause)} | {_cell(row.fix)} |"


def profiles() -> Iterator[str]:
    """Every dialect of sealing."""
    rows = [*PROFILES.values(), *ANSWER_PROFILES.values()]
    yield "# Dialects of sealing\n\nThe rows of `seals.PROFILES`. Each is a file in `tppkit/seals/dialects`."
    yield f"\nAt the end of each table: {' and '.join(ANSWER_PROFILES)} of `seals.ANSWER_PROFILES`, for the answers of banks."
    yield "\n## Sources\n\n| profile | format | source | its date | read on |\n|---|---|---|---|---|"
    for row in rows:
        yield f"| `{row.name}` | {row.format.value} | {_cell(row.source)} | {row.as_of or 'undated'} | {row.read_on} |"
    headings = [heading for heading, _, _ in _PROPERTIES]
    yield "\n## Read from a specification or published code\n"
    yield "An empty cell is assumed. A field in brackets is covered if the request has it.\n"
    yield f"| profile | {' | '.join(headings)} |\n|---|{'---|' * len(headings)}"
    for row in rows:
        assumed, _ = _assumed(row)
        yield f"| `{row.name}` | {' | '.join('' if (heading, text) in assumed else text for heading, text in _properties(row))} |"
    yield "\n## Assumed\n\nWhat a source leaves open has the value of the guidelines (`berlin-group`), unless a remark states another.\n"
    yield "| profile | properties | parts of properties that were read |\n|---|---|---|"
    for row in rows:
        assumed, remarks = _assumed(row)
        yield f"| `{row.name}` | {'; '.join(map(': '.join, assumed)) or '-'} | {_cell('; '.join(remarks)) or '-'} |"


def _properties(row: SealProfile) -> list[tuple[str, str]]:
    """The properties of a dialect: heading and value."""
    return [(heading, write(row)) for heading, _, write in _PROPERTIES]


def _assumed(row: SealProfile) -> tuple[list[tuple[str, str]], list[str]]:
    """The properties of a dialect that are assumed, and the remarks on others of which a part is."""
    entries = [entry.partition(": ") for entry in row.assumed.split("; ") if entry]
    whole = {name for name, _, remark in entries if not remark}
    properties = [(heading, write(row)) for heading, names, write in _PROPERTIES if whole.intersection(names)]
    headings = {name: heading for heading, names, _ in _PROPERTIES for name in names}
    return properties, [f"{headings[name]}: {remark}" for name, _, remark in entries if remark]


def _covered(row: SealProfile) -> str:
    covered = " ".join([*row.covered, *(f"[{name}]" for name in row.covered_if_present)])
    notes = [row.order.value] * (row.order is not FieldOrder.LISTED) + ["nothing else"] * row.only_these
    return "; ".join([f"`{covered}`", *notes])


def _digest(row: SealProfile) -> str:
    if row.covers_body:
        return "none: the body is signed"
    return f"{row.digest_field}: {row.digest_algorithm}" + (
        " of the file" if row.digest_of is DigestOf.FIRST_FILE else ""
    )


def _certificate(row: SealProfile) -> str:
    return row.certificate_header or ("x5c of the signature" if row.sends_x5c else "none: known to the bank")


def _limit(row: SealProfile) -> str:
    length = row.max_age or row.expires_after
    return "-" if length is None else f"{length.total_seconds():.0f} seconds"


# The heading of a property, the fields of `SealProfile` that it has, and its value.
_PROPERTIES: tuple[tuple[str, tuple[str, ...], Callable[[SealProfile], str]], ...] = (
    ("covers", ("covered", "covered_if_present", "only_these", "order"), _covered),
    ("keyId", ("key_id",), lambda row: _key_id(row.key_id)),
    ("algorithms", ("algorithms",), lambda row: ", ".join(dict.fromkeys(wire for wire, _ in row.algorithms))),
    ("digest", ("digest_algorithm", "digest_field", "digest_of"), _digest),
    ("private parameters", ("private",), lambda row: "; ".join(f"{name}: {rule}" for name, rule in row.private) or "-"),
    ("no body", ("empty_body",), lambda row: row.empty_body.value),
    ("signature in", ("carrier",), lambda row: row.carrier + ("" if row.signature_quoted else ", without quotes")),
    ("certificate in", ("certificate_header",), _certificate),
    ("its form", ("certificate_form",), lambda row: row.certificate_form.value if row.certificate_header else "-"),
    ("age or life", ("max_age", "expires_after"), _limit),
)


def _key_id(style: KeyIdStyle) -> str:
    if style.form not in (KeyIdForm.CERTIFICATE, KeyIdForm.SERIAL):
        return style.form.value
    radix = {"X": "hexadecimal", "x": "lower-case hexadecimal", "d": "decimal"}[style.radix.value]
    notes = [
        style.form.value.replace("<serial>", f"<{radix}>") if style.form is KeyIdForm.CERTIFICATE else f"{radix} serial"
    ]
    notes += ["issuer optional"] * style.issuer_optional + ["spaces as they are"] * (not style.percent)
    notes += ["line breaks left out"] * style.drops_newlines
    return "; ".join(f"`{note}`" if "=" in note else note for note in notes)


def openapi(name: str) -> Iterator[str]:
    """An interface for the tools of others."""
    bank = load_persona("document")
    yield json.dumps(openapi_documents(bank, PROFILES[bank.profile], {})[name](), indent=1)


def command_line() -> Iterator[str]:
    """Every command's help."""
    yield "# Command line\n\nResults go to stdout, messages to stderr."
    yield "Exit codes: 0 holds, 1 does not hold, 2 wrong usage, 3 cannot be read.\n"
    for path, command in _commands(root_command, ["tppkit"]):
        context = click.Context(command, info_name=" ".join(path), max_content_width=100, terminal_width=100)
        yield f"## {' '.join(path)}\n\n```text\n{command.get_help(context)}\n```\n"


def command_names() -> list[str]:
    """Every command, as it is typed."""
    return [" ".join(path) for path, _ in _commands(root_command, ["tppkit"])]


def _commands(command: click.Command, path: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in sorted(command.list_commands(context)):
            below = command.get_command(context, name)
            if below is not None:
                yield from _commands(below, [*path, name])


def api(names: Iterable[Name]) -> Iterator[str]:
    """The public names of a package; autodoc writes the entries."""
    modules: dict[str, list[Name]] = defaultdict(list)
    for name in names:
        modules[name.module].append(name)
    for number, (module, offered) in enumerate(sorted(modules.items())):
        yield f"{module}\n{'-='[number == 0] * len(module)}\n\n.. automodule:: {module}\n"
        for name in offered:
            if name.home == module:
                yield f".. {_directive(name.value)}:: {module}.{name.name}"
        if others := [
            f":py:obj:`{name.name} <{name.home}.{name.name}>`" for name in offered if name.home != name.module
        ]:
            yield f"\nAlso offered here: {', '.join(others)}."
        yield ""


def _directive(value: Any) -> str:
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, Exception) else "autoclass"
    return "autofunction" if inspect.isfunction(value) else "autodata"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "codes.md": codes,
    "assumptions.md": assumptions,
    "psd2.md": psd2,
    "legacy.md": legacy,
    "gateway.md": gateway,
    "rules.md": rules,
    "calendar.md": calendar,
    "conformance.md": conformance,
    "diagnose.md": diagnose,
    "profiles.md": profiles,
    "cli.md": command_line,
    "performance.md": performance.page,
    "performance.svg": performance.plot,
    **{f"{name}-openapi.json": partial(openapi, name) for name in ("psd2", "legacy", "gateway")},
    **{f"api/{page}.rst": partial(api, names) for page, names in public_names().items()},
}


def main() -> int:
    """Write, or compare."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = 0
    (FOLDER / "api").mkdir(exist_ok=True)
    for old in {*(FOLDER / "api").iterdir()} - {FOLDER / name for name in PAGES}:
        print(f"{old} is left over: remove it")
        stale = 1
    for name, page in PAGES.items():
        note = NOTES.get(Path(name).suffix, "")
        text = note + "\n".join(page()).rstrip() + "\n"
        path = FOLDER / name
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text("utf-8") != text:
                print(f"docs/reference/{name} is not current: run make docs")
                stale = 1
        else:
            path.write_text(text, "utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
