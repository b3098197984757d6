"""Mistakes in the lines of the signing string: which, in what order, how named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, permutations

from tppkit.httpsig.message import REQUEST_TARGET
from tppkit.seals.diagnose.draft import Draft, Line, Seen
from tppkit.seals.diagnose.mistake import Part, StringMistake
from tppkit.seals.diagnose.values import MAX_LINES
from tppkit.seals.profiles import PROFILES

_PERMUTED = 6  # lines; of more, only the usual orders are tried

_ORDER = "Write the lines in the order of the headers parameter."
_LINE = "Write each line as the name in lower case, a colon, one space and the value; join them by one line feed."


def _row(
    name: str,
    cause: str,
    apply: Callable[[Draft, Seen], Iterator[Draft]],
    mend: str,
    *,
    common: bool = False,
    likely: int = 2,
) -> StringMistake:
    return StringMistake(name, Part.STRING, cause, mend, apply, common, likely)


def _orders(draft: Draft, seen: Seen) -> Iterator[Draft]:
    lines = draft.lines
    yield draft._replace(lines=tuple(sorted(lines)))
    yield draft._replace(lines=tuple(reversed(lines)))
    behind = len(seen.message.headers)
    present = [line.component for line in lines if line.component in seen.fields]
    places = {name: seen.fields[name][-1].place for name in present}
    for target_place in (-1, behind):
        placed = places | {REQUEST_TARGET: target_place}
        yield draft._replace(lines=tuple(sorted(lines, key=lambda line: placed.get(line.component, behind + 1))))
    for profile in PROFILES.values():
        names = {name.lower(): place for place, name in enumerate((*profile.covered, *profile.covered_if_present))}
        yield draft._replace(lines=tuple(sorted(lines, key=lambda line: names.get(line.component, len(names)))))
    if len(lines) <= _PERMUTED:
        for order in permutations(lines):
            yield draft._replace(lines=order)


def _left_out(draft: Draft, seen: Seen) -> Iterator[Draft]:
    lines = draft.lines
    for number in range(len(lines)):
        yield draft._replace(lines=lines[:number] + lines[number + 1 :])
    filled = tuple([line for line in lines if line.value])
    if filled != lines:
        yield draft._replace(lines=filled)


def _absent_empty(draft: Draft, seen: Seen) -> Iterator[Draft]:
    names = seen.parameters.headers
    lines = {line.name: line for line in draft.lines}
    if any(name not in seen.values for name in names) and set(lines) <= set(names):
        yield draft._replace(lines=tuple([lines.get(name, Line(name, "")) for name in names]))


def _left_out_two(draft: Draft, seen: Seen) -> Iterator[Draft]:
    lines = draft.lines
    for first in range(len(lines)):
        for second in range(first + 1, len(lines)):
            yield draft._replace(
                lines=tuple([line for number, line in enumerate(lines) if number not in (first, second)])
            )
    yield from (draft._replace(lines=lines[:count]) for count in range(1, len(lines)))


def _added(draft: Draft, seen: Seen) -> Iterator[Draft]:
    present = {line.component for line in draft.lines} | {"signature", "signature-input", "authorization"}
    others = (row for row in seen.values.items() if row[0] not in present)
    more = tuple(islice(others, MAX_LINES))
    for place in (len(draft.lines), *range(len(draft.lines))):  # at the end first, where most are added
        for name, value in more:
            name = f'"{name}"' if draft.quotes_names else name
            yield draft._replace(lines=(*draft.lines[:place], Line(name, value), *draft.lines[place:]))


def _wire_case(draft: Draft, seen: Seen) -> Iterator[Draft]:
    names = {line.name: line.component for line in draft.lines}
    spelled = {
        name: name.replace(bare, seen.fields[bare][-1].name) for name, bare in names.items() if bare in seen.fields
    }
    titled = [line._replace(name=_titled(line.name)) for line in draft.lines]
    for lines in (
        [line._replace(name=spelled.get(line.name, line.name)) for line in draft.lines],
        [line if line.name == REQUEST_TARGET else new for line, new in zip(draft.lines, titled, strict=True)],
        [line._replace(name=line.name.upper()) for line in draft.lines],
        [line if line.name == REQUEST_TARGET else line._replace(name=line.name.upper()) for line in draft.lines],
    ):
        yield draft._replace(lines=tuple(lines))
    for number, line in enumerate(draft.lines):
        if line.name in spelled:
            changed = line._replace(name=spelled[line.name])
            yield draft._replace(lines=(*draft.lines[:number], changed, *draft.lines[number + 1 :]))


def _titled(name: str) -> str:
    """With a capital at the beginning of each word."""
    return re.sub(r"(?<![A-Za-z0-9@])[a-z]", lambda first: first[0].upper(), name)


def _names_left_out(draft: Draft, seen: Seen) -> Iterator[Draft]:
    yield draft._replace(nameless=True)


def _names_quoted(draft: Draft, seen: Seen) -> Iterator[Draft]:
    if not draft.quotes_names:
        yield draft._replace(lines=tuple([line._replace(name=f'"{line.name}"') for line in draft.lines]))


def _target_name(draft: Draft, seen: Seen) -> Iterator[Draft]:
    for other in (
        "request-target",
        "(Request-Target)",
        "(REQUEST-TARGET)",
        "request-line",
        "@request-target",
        "(request_target)",
    ):
        yield draft._replace(
            lines=tuple([line._replace(name=other) if line.name == REQUEST_TARGET else line for line in draft.lines])
        )


def _colons(*colons: str) -> Callable[[Draft, Seen], Iterator[Draft]]:
    def apply(draft: Draft, seen: Seen) -> Iterator[Draft]:
        for colon in colons:
            yield draft._replace(lines=tuple([line._replace(colon=colon) for line in draft.lines]))
        for colon in colons:
            for number, line in enumerate(draft.lines[:MAX_LINES]):
                yield draft._replace(
                    lines=(*draft.lines[:number], line._replace(colon=colon), *draft.lines[number + 1 :])
                )
        if any(not line.value for line in draft.lines) and "" not in colons:
            yield draft._replace(
                lines=tuple([line if line.value else line._replace(colon=":") for line in draft.lines])
            )

    return apply


LINE_MISTAKES: tuple[StringMistake, ...] = (
    _row("header-missing", "A header that the headers parameter names is missing from what was signed.", _left_out,
         "Sign every header that the headers parameter names, or name fewer.", likely=8, common=True),
    _row("absent-as-empty", "A header that did not arrive was signed with an empty value.", _absent_empty,
         "Cover only headers that are sent; proxies drop empty ones."),
    _row("order", "The lines were signed in another order than the headers parameter names them.", _orders, _ORDER, likely=30, common=True),
    _row("header-added", "A header was signed that the headers parameter does not name.", _added,
         "Name every signed header in the headers parameter.", likely=16, common=True),
    _row("names-not-lower-case", "The names of the headers are not in lower case in what was signed.", _wire_case, _LINE, common=True),
    _row("colon-spaces", "More than a colon and one space stands between name and value in what was signed.",
         _colons(":  ", " : ", ":\t", " :"), _LINE, likely=4),
    _row("colon-no-space", "No space follows the colon in what was signed.", _colons(":"), _LINE, common=True),
    _row("colon-other", "Something else than a colon stands between name and value in what was signed.", _colons("=", " ", "= ", " = "),
         _LINE, likely=4),
    _row("names-left-out", "The values were signed without the names of the headers.", _names_left_out, _LINE),
    _row("names-quoted", "The names of the headers stand in quotes in what was signed, as RFC 9421 has them.", _names_quoted, _LINE),
    _row("target-name", "The name of (request-target) is written otherwise in what was signed.", _target_name, _LINE, likely=6),
    _row("headers-missing", "Several headers that the headers parameter names are missing from what was signed.", _left_out_two,
         "Sign every header that the headers parameter names, or name fewer.", likely=0),
)  # fmt: skip
