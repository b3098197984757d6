"""Two mistakes in one signing string, of their less usual variants too: found with a P-256 key, where each guess is dear."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from wrong_signer import Lines, joined, seal_wrongly

from tppkit.seals.diagnose import Outcome, diagnose_request
from tppkit.testpki import Pki


def hashed_first(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def one_colon_bare(lines: Lines) -> bytes:
    texts = [f"{name}: {value}" for name, value in lines]
    texts[2] = texts[2].replace(": ", ":", 1)
    return "\n".join(texts).encode("latin-1")


def with_line_first(lines: Lines) -> Lines:
    return [("host", "api.bank.example"), *lines]


def bare_target(lines: Lines) -> Lines:
    return [(name.strip("()"), value) for name, value in lines]


def quoted_id(lines: Lines) -> Lines:
    return [(name, f'"{value}"' if name == "x-request-id" else value) for name, value in lines]


PAIRS: list[tuple[set[str], dict[str, Any]]] = [
    ({"colon-no-space", "hashed-first"}, {"assemble": one_colon_bare, "string": hashed_first}),
    ({"header-added", "hashed-first"}, {"lines": with_line_first, "string": hashed_first}),
    ({"string-joined-otherwise", "string-newline-after"}, {"assemble": joined("\\n", after="\n")}),
    ({"string-crlf-after", "string-newline-before"}, {"assemble": joined(before=" ", after="\r\n\r\n")}),
    ({"colon-other", "string-crlf-after"}, {"assemble": joined(colon=" = ", after="\r\n")}),
    ({"target-name", "string-joined-otherwise"}, {"lines": bare_target, "assemble": joined(", ")}),
    ({"value-quoted", "target-name"}, {"lines": lambda lines: bare_target(quoted_id(lines))}),
]  # fmt: skip


@pytest.mark.parametrize(("names", "steps"), PAIRS, ids=lambda value: "+".join(sorted(value)))
def test_a_pair_is_found_within_the_bound_on_work(pki: Pki, names: set[str], steps: dict[str, Any]) -> None:
    message = seal_wrongly(pki.qseal, **steps)
    diagnosis = diagnose_request(message, certificates=(pki.qseal.certificate, pki.qwac.certificate))
    assert diagnosis.outcome is Outcome.EXPLAINED
    assert {cause.name for cause in diagnosis.causes} == names
