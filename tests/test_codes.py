"""The table of codes and the source name the same codes."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tppkit
from tppkit import errors
from tppkit.codes import CODES, UNSTABLE

SOURCE = Path(tppkit.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
# What takes a code as its first argument: every exception, findings, rules, and the note of a malformed statement.
TAKERS = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)} - {
    "RequestRefused",  # its first argument is the message; its code is fixed
    "ConfigurationError",  # the message is enough to correct a setting
} | {"Finding", "Rule", "note"}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node


def codes_in(node: ast.expr) -> Iterator[str]:
    """The literal code, or both of `a if x else b`; a code that is passed on has no literal here."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from codes_in(body)
            yield from codes_in(orelse)


def raised_codes() -> dict[str, str]:
    return {
        code: f"{file.relative_to(SOURCE)}:{call.lineno}"
        for file in FILES
        for name, call in calls(ast.parse(file.read_text()))
        if name in TAKERS and call.args
        for code in codes_in(call.args[0])
    }


def test_every_code_of_the_source_has_a_row():
    raised = raised_codes()
    assert len(raised) > 50
    assert {code: place for code, place in raised.items() if code not in CODES} == {}


def test_every_row_is_used_in_the_source_and_not_for_wrong_settings_only():
    literals: Counter[str] = Counter()
    for file in FILES:
        tree = ast.parse(file.read_text())
        literals.update(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in CODES)
        settings = (call.args[0] for name, call in calls(tree) if name == "ConfigurationError" and call.args)
        literals.subtract(code for argument in settings for code in codes_in(argument))
    assert [code for code in CODES if literals[code] < 1] == []


def test_every_code_is_dotted_and_lower_case():
    assert [code for code in CODES if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*", code)] == []


def test_every_row_explains_the_code_and_what_to_do_in_sentences():
    assert [code for code, row in CODES.items() if not all(re.fullmatch(r"[A-Z].+\.", text) for text in row[:2])] == []


def test_rows_are_in_alphabetical_order():
    assert list(CODES) == sorted(CODES)


def test_no_promised_code_is_gone():
    promised = Path(__file__).with_name("stable-codes.txt").read_text().split()
    assert promised == sorted(set(promised))
    assert [code for code in promised if code not in CODES or not CODES[code].stable] == []


def test_every_group_that_is_not_stable_has_codes():
    assert {code.partition(".")[0] for code, row in CODES.items() if not row.stable} == UNSTABLE


def test_the_table_is_read_only_when_a_text_is_requested():
    code = "import tppkit.client; from tppkit.codes import CODES, UNSTABLE; print(vars(CODES))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "{}\n"
