"""The public names: each shows how it is used, no two classes share a name, and what occurs in a signature can be imported."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import re
import typing
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, ForwardRef

import pydantic

import tppkit

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^Example:\n((?:    .*(?:\n|\Z)|\n)+)|\n\n((?:    .*(?:\n|\Z)|\n(?=    ))+)", re.MULTILINE)

NODES = [node for guide in GUIDES for block in BLOCK.findall(guide.read_text()) for node in ast.walk(ast.parse(block))]
IMPORTS = {
    (str(node.module), alias.name)
    for node in NODES
    if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tppkit.")
    for alias in node.names
}
CALLED = {node.func.id for node in NODES if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}

# Classes in signatures that no package offers, with the reason. What users compare, make or write in annotations is offered.
NOT_OFFERED = {
    "parts of results, of which users read the fields": """
        AniResults Claim ConsentLinks Crl Date DisplayString Drafted Event ExternalAuthentication Judgement LimitValue ListFailure
        Listing OcspResponse Outcomes PageLinks PdsLocation Reading Replay Revocation RoleOfPsp SealPending Selection Skipped StampRow
        Statuses Token Totals TrustedList TrustedSeal
    """,
    "an enumeration of the gateway whose name PSD2 has too; its members equal their text": "TransactionStatus",
    "given by a constant, as text, or as what another function returned": """
        Attribute Control KeySource Receivers Refusal SandboxHosts SandboxTransport SealOptions
    """,
    "parts of the rows of a bank's own table": "Body CsvRows Refusals",
    "made by the middlewares": "Visit",
    "protocols and bases of classes that are offered": "AwaitingGate BlockingGate Bounds ReplayStore Secret UseVerifier",
}


def _value(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


@cache
def _offered() -> list[tuple[str, str]]:
    modules = [
        found.name for found in pkgutil.walk_packages(tppkit.__path__, "tppkit.") if "__main__" not in found.name
    ]
    return [(module, name) for module in modules for name in getattr(importlib.import_module(module), "__all__", ())]


@cache
def _public_classes() -> set[type]:
    """What the packages offer, and what the modules define from which guides import."""
    modules = [importlib.import_module(module) for module, _ in IMPORTS]
    values = [_value(*key) for key in _offered()]
    for module in modules:
        values += [one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__]
    return {one for one in values if inspect.isclass(one) and not one.__name__.startswith("_")}


def _is_example_needed(value: object) -> bool:
    """Not for errors, enumerations and models, nor for dataclasses and tuples that no guide makes."""
    if not inspect.isclass(value):
        return inspect.isfunction(value)
    if issubclass(value, (enum.Enum, Exception, pydantic.BaseModel)):
        return False
    return value.__name__ in CALLED or not (dataclasses.is_dataclass(value) or issubclass(value, tuple))


def test_public_classes_and_functions_of_guides_show_an_example():
    lacking = set()
    for module, name in {
        *IMPORTS,
        *((module, name) for module, name in _offered() if inspect.isclass(_value(module, name))),
    }:
        value = _value(module, name)
        if _is_example_needed(value) and not EXAMPLE.search(inspect.cleandoc(value.__doc__ or "")):
            lacking.add(f"{value.__module__}.{name}")
    assert sorted(lacking) == []


def test_every_example_is_python():
    functions = [one for key in {*IMPORTS, *_offered()} if inspect.isfunction(one := _value(*key))]
    for part in [*functions, *(part for cls in _public_classes() for part in _parts(cls) if _is_ours(part))]:
        for found in EXAMPLE.finditer(inspect.cleandoc(part.__doc__ or "")):
            ast.parse(dedent(found[1] or found[2]), f"the example of {part.__module__}.{part.__qualname__}")


def test_no_two_public_classes_share_a_name():
    named = defaultdict(set)
    for one in _public_classes():
        named[one.__name__].add(one.__module__)
    named.pop(
        "Query"
    )  # a search at the gateway; that of `protocol.endpoint` describes a parameter, and no guide imports it
    assert {name: modules for name, modules in named.items() if len(modules) > 1} == {}


def _is_ours(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith("tppkit.")


@cache
def _names_of(module: str) -> dict[str, Any]:
    """The names that annotations of a module may use, also those that it imports for type checkers only."""
    found = importlib.import_module(module)
    names = dict(vars(found))
    for node in ast.parse(inspect.getsource(found)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def _annotations(value: Any) -> Iterator[Any]:
    """The annotations of a function, or of the fields of a class; what is inherited from other libraries has none."""
    for one in filter(_is_ours, inspect.getmro(value) if inspect.isclass(value) else [value]):
        for annotation in inspect.get_annotations(one).values():
            text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
            yield eval(text, _names_of(one.__module__)) if isinstance(text, str) else annotation


def _classes_in(annotation: Any) -> Iterator[type]:
    if inspect.isclass(annotation) and annotation.__module__.startswith("tppkit."):
        yield annotation
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    for part in (typing.get_origin(annotation), *arguments):
        for one in part if isinstance(part, list) else [part]:
            if one is not None:
                yield from _classes_in(one)


def _parts(cls: type) -> Iterator[Any]:
    """The class with its fields, and its public methods and properties."""
    yield from (cls, cls.__init__)
    for name in dir(cls):
        match inspect.getattr_static(cls, name):
            case _ if name.startswith("_"):
                pass
            case property(fget=function) | cached_property(func=function):
                yield function
            case _ if callable(value := getattr(cls, name)):
                yield value


def test_every_class_in_a_public_signature_can_be_imported():
    functions = {one for key in _offered() if inspect.isfunction(one := _value(*key))}
    classes = [one for one in _public_classes() if not issubclass(one, enum.Enum)]
    occurring = {
        one
        for value in [*functions, *(part for cls in classes for part in _parts(cls))]
        for annotation in _annotations(value)
        for one in _classes_in(annotation)
        if not one.__name__.startswith("_")
    }
    known = {name for names in NOT_OFFERED.values() for name in names.split()}
    assert {one.__name__ for one in occurring - _public_classes()} == known
