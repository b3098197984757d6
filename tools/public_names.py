"""The public names: what a package lists in `__all__`, what the guides import from other modules, and every error."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import tppkit

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ERRORS = "tppkit.errors"


class Name(NamedTuple):
    """A public name."""

    module: str
    name: str
    home: str  # the module on whose page it is described

    @property
    def value(self) -> Any:
        """The object."""
        return getattr(importlib.import_module(self.module), self.name)


def public_names() -> dict[str, list[Name]]:
    """The names by page; a page has a package that has `__all__`, with its modules, or the errors."""
    found = [one.name for one in pkgutil.walk_packages(tppkit.__path__, "tppkit.") if one.ispkg]
    offered = defaultdict(set, {name: set(getattr(importlib.import_module(name), "__all__", ())) for name in found})
    packages = [module for module, names in offered.items() if names]
    offered[ERRORS] = {
        name for name, one in vars(importlib.import_module(ERRORS)).items() if _module(one) == ERRORS and name[0] != "_"
    }
    for module, name in sorted(_imported_by_guides()):
        if not any(name in offered[package] and _same(package, module, name) for package in packages):
            offered[module].add(name)
    homes: dict[tuple[str, int], str] = {}
    for module, names in sorted(offered.items()):
        for name in names:
            value = getattr(importlib.import_module(module), name)
            if homes.setdefault((name, id(value)), module) != module and _module(value).startswith(module):
                homes[name, id(value)] = module
    pages = defaultdict(list)
    for module, names in sorted(offered.items()):
        page = max((package for package in packages if f"{module}.".startswith(f"{package}.")), key=len, default=module)
        for name in sorted(names):
            value = getattr(importlib.import_module(module), name)
            pages[page.removeprefix("tppkit.")].append(Name(module, name, homes[name, id(value)]))
    return dict(pages)


def _module(value: object) -> str:
    return str(getattr(value, "__module__", ""))


def _same(one: str, other: str, name: str) -> bool:
    return getattr(importlib.import_module(one), name) is getattr(importlib.import_module(other), name)


def _imported_by_guides() -> set[tuple[str, str]]:
    guides = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {
        (str(node.module), alias.name)
        for guide in guides
        for block in BLOCK.findall(guide.read_text("utf-8"))
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tppkit.")
        for alias in node.names
    }
