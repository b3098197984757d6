"""Other people's internals: no module uses a private part of a library, and what goes beyond their documentation is listed."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/tppkit"
LIBRARIES = {
    "asyncio",
    "click",
    "httpcore",
    "httptools",
    "httpx",
    "psycopg",
    "pydantic",
    "sqlalchemy",
    "ssl",
    "uvicorn",
}
DERIVES = re.compile(rf"^(?:from|import) (?:{'|'.join(LIBRARIES)})\b(?s:.)*^ *class \w+\(", re.MULTILINE)
PRIVATE = re.compile(r"_[a-zA-Z]\w*")
POSSESSIVE_GROUP = re.compile(r"(?<!\()\)(?:[*+?]|\{+[0-9,]+\}+)\+")
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}  # documented
HEAD = "| place | library | reason | test | upper bound |"


def test_no_pattern_repeats_a_group_possessively():
    """Before Python 3.11.5 such a group matches wrongly (cpython issue 106052); an atomic group says the same."""
    assert all(POSSESSIVE_GROUP.search(text) for text in ("(?:25)++", "(?:a|b){{1,3}}+"))
    assert [path.name for path in SOURCE.rglob("*.py") if POSSESSIVE_GROUP.search(path.read_text("utf-8"))] == []


def test_no_module_uses_a_private_name_of_a_library():
    own, used = {*NAMED_TUPLE}, set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    own.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                    own.add(name)
                case ast.Attribute(value=ast.Name(id="hashlib")):
                    pass  # a type for mypy, for which typeshed has no other name
                case ast.Attribute(attr=name) | ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(name), *_]):
                    used.add((name, path.name))
                case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in LIBRARIES:
                    used |= {(name, path.name) for name in (*module.split("."), *(one.name for one in node.names))}
    assert {(name, file) for name, file in used if PRIVATE.fullmatch(name) and name not in own} == set()


def _classes() -> Iterator[type]:
    for path in SOURCE.rglob("*.py"):
        if DERIVES.search(path.read_text()):
            module = importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
            yield from (
                one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__
            )


def test_no_class_overrides_a_private_method_of_a_library():
    found = set()
    for one in _classes():
        above = [other for other in one.__mro__ if other.__module__.partition(".")[0] in LIBRARIES]
        own = {name for name, value in vars(one).items() if PRIVATE.fullmatch(name) and inspect.isfunction(value)}
        found |= {(one.__qualname__, name) for name in own for other in above if name in vars(other)}
    assert found == set()


def _listed() -> list[list[str]]:
    lines = (ROOT / "docs/explanation/libraries.md").read_text().splitlines()
    rows = lines[lines.index(HEAD) + 2 :]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows if row.startswith("|")]


@pytest.mark.parametrize("row", _listed(), ids=lambda row: row[0])
def test_a_listed_place_has_a_test_and_an_upper_bound(row):
    place, _, _, test, bound = row
    assert (SOURCE / place).is_file()
    assert (ROOT / test).is_file()
    required = re.findall(r'"([\w-]+)(?:\[\w+\])?>=[\d.]+,?(<\d+)?"', (ROOT / "pyproject.toml").read_text())
    name, _, number = bound.partition("<")
    assert bound == "none" or {limit for package, limit in required if package == name} == {f"<{number}"}
