"""The licences of the libraries in a bill of materials (CycloneDX), and which are accepted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# Licences that ask for their notice only. Classifiers are those of older metadata.
PERMISSIVE = frozenset({
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib",
    "License :: OSI Approved :: Apache Software License", "License :: OSI Approved :: BSD License",
    "License :: OSI Approved :: CMU License (MIT-CMU)", "License :: OSI Approved :: MIT License",
})  # fmt: skip
UNNAMED = ("License :: OSI Approved",)  # a classifier that names none
# Libraries with another licence, and why they are accepted.
NAMED = {
    "certifi": "MPL-2.0: a list of authorities that is not changed here",
    "psycopg": "LGPL-3.0: extra `postgres` only, imported and not changed",
    "psycopg-binary": "LGPL-3.0: extra `postgres` only, imported and not changed; its wheel has libpq and OpenSSL",
}


class Row(NamedTuple):
    """A library.

    Attributes:
        reason: why it is accepted; empty if it is not.
    """

    name: str
    version: str
    licence: str
    reason: str


def rows(bill: Mapping[str, Any]) -> Iterator[Row]:
    """The libraries of a bill, in its order."""
    for component in bill["components"]:
        found = list(_licences(component.get("licenses", ())))
        accepted = found and all(
            PERMISSIVE.issuperset(filter(None, re.split(r" AND | OR |[()]", text))) for text in found
        )
        reason = "permissive" if accepted else NAMED.get(component["name"].lower(), "")
        yield Row(component["name"], component["version"], "; ".join(found), reason)


def _licences(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The expressions and identifiers, and classifiers that name a licence; other names only where there is nothing else."""
    texts = [entry.get("expression") or entry["license"].get("id") for entry in entries]
    names = [entry["license"]["name"] for entry, text in zip(entries, texts, strict=True) if not text]
    known = [*filter(None, texts), *(name for name in names if name.startswith("License :: ") and name not in UNNAMED)]
    yield from known or names


def table(found: Iterable[Row]) -> str:
    """A table in Markdown."""
    lines = ["| library | version | licence | accepted as |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in found)]) + "\n"
