"""Where a signing string holds the target, in each format; and mistakes in the derived components of RFC 9421.

| line | of the target it holds |
|---|---|
| `(request-target)` | all of it, behind the method in lower case |
| `"@request-target"` | all of it |
| `"@target-uri"` | all of it, behind scheme and authority |
| `"@path"`, `"@query"` | what stands before the question mark; the rest, with the question mark |

Source: RFC 9421 sections 2.2 and 2.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tppkit.httpsig.message import REQUEST_TARGET
from tppkit.seals.diagnose.draft import SIGNATURE_PARAMS, Draft, Line, Seen
from tppkit.seals.diagnose.mistake import Part, StringMistake

_URI = re.compile(r"(https?://[^/?#]*)(.*)", re.DOTALL)
_METHODS = ("POST", "GET", "PUT", "DELETE", "PATCH", "HEAD")


class TargetPlace(NamedTuple):
    """A line that holds a target, or a part of one.

    Attributes:
        line: the line.
        target: what it holds, as a target.
        write: the line's value for another target.
    """

    line: Line
    target: str
    write: Callable[[str], str]


def target_of(line: Line) -> TargetPlace | None:
    """The target in a line, or None where there is none."""
    value = line.value
    match line.component:
        case "(request-target)":
            method, _, target = value.partition(" ")
            return TargetPlace(line, target, lambda other: f"{method} {other}")
        case "@request-target":
            return TargetPlace(line, value, lambda other: other)
        case "@path":
            return TargetPlace(line, value, lambda other: other.partition("?")[0])
        case "@query" if value != "?":  # which stands for no query at all
            return TargetPlace(line, f"/{value}", lambda other: "".join(other.partition("?")[1:]))
        case "@target-uri":
            uri = _URI.fullmatch(value)
            if uri is not None:
                return TargetPlace(line, uri[2], lambda other: f"{uri[1]}{other}")
    return None


def hosts_of(seen: Seen) -> tuple[str, ...]:
    """The hosts that the request names, with and without ports."""
    host, forwarded = seen.values.get("host", ""), seen.values.get("x-forwarded-host", "")
    plain = re.sub(r":\d+$", "", host)
    ports = (f"{plain}:443", f"{plain}:8443", f"{plain}:80") if plain else ()
    return tuple(dict.fromkeys(text for text in (host, plain, *ports, forwarded) if text))


Values = Callable[[str, Seen], Iterator[str]]


def _row(name: str, component: str, cause: str, values: Values, mend: str, *, common: bool = False) -> StringMistake:
    """A row that changes the value of one component."""

    def apply(draft: Draft, seen: Seen) -> Iterator[Draft]:
        for line in draft.lines if draft.quotes_names else ():
            if line.component == component:
                yield from (
                    draft.with_value(line.name, other) for other in values(line.value, seen) if other != line.value
                )

    return StringMistake(name, Part.STRING, cause, mend, apply, common, 6)


def _methods(value: str, seen: Seen) -> Iterator[str]:
    yield from (value.lower(), value.capitalize(), *_METHODS)


def _queries(value: str, seen: Seen) -> Iterator[str]:
    yield value.removeprefix("?")
    if value == "?":
        yield from ("", "null", "None")


def _paths(value: str, seen: Seen) -> Iterator[str]:
    yield seen.message.target
    yield f"{seen.message.method.lower()} {seen.message.target}"
    for host in hosts_of(seen):
        yield from (
            f"{scheme}://{host}{target}" for scheme in ("https", "http") for target in (seen.path, seen.message.target)
        )
        yield f"{host}{seen.path}"


def _uris(value: str, seen: Seen) -> Iterator[str]:
    uri = _URI.fullmatch(value)
    if uri is not None:
        for host in (uri[1].partition("://")[2], *hosts_of(seen)):
            yield from (f"{scheme}://{host}{uri[2]}" for scheme in ("https", "http"))
            yield from (f"{host}{uri[2]}", f"//{host}{uri[2]}")
        yield uri[2]
        yield uri[2].partition("?")[0]


def _authorities(value: str, seen: Seen) -> Iterator[str]:
    plain = re.sub(r":\d+$", "", value)
    for host in dict.fromkeys((value, plain, *hosts_of(seen))):
        yield from (host, host.upper(), f"https://{host}", f"http://{host}")
        if ":" not in host:
            yield from (f"{host}:{port}" for port in (443, 8443, 80))
    yield ""


def _schemes(value: str, seen: Seen) -> Iterator[str]:
    yield from ("http", "https", "HTTPS", "HTTP", f"{value}://", f"{value}:")


def _request_targets(value: str, seen: Seen) -> Iterator[str]:
    yield f"{seen.message.method.lower()} {value}"
    yield f"{seen.message.method} {value}"
    yield f"{seen.message.method} {value} HTTP/1.1"


def _unquoted(draft: Draft, seen: Seen) -> Iterator[Draft]:
    """Names without the quotes around them."""
    if draft.quotes_names:
        bare = [line._replace(name=line.name.removeprefix('"').replace('"', "", 1)) for line in draft.lines]
        yield draft._replace(lines=tuple(bare))
        last_quoted = [*bare[:-1], draft.lines[-1]]
        yield draft._replace(lines=tuple(last_quoted))


def _parameters(draft: Draft, seen: Seen) -> Iterator[Draft]:
    """The line of the parameters with the label before it, without white space, or as draft-cavage names the target."""
    value = next((line.value for line in draft.lines if line.name == SIGNATURE_PARAMS), None)
    if value is not None:
        for label in dict.fromkeys((seen.values.get("signature-input", "").partition("=")[0], "sig1", "sig")):
            yield draft.with_value(SIGNATURE_PARAMS, f"{label}={value}")
        yield draft.with_value(SIGNATURE_PARAMS, value.partition(")")[0] + ")")
        yield draft.with_value(SIGNATURE_PARAMS, value.replace(";", "; "))


def _target_line(draft: Draft, seen: Seen) -> Iterator[Draft]:
    """Lines of draft-cavage's target in place of the derived components."""
    if draft.quotes_names:
        derived = [number for number, line in enumerate(draft.lines[:-1]) if line.component.startswith("@")]
        target = f"{seen.message.method.lower()} {seen.message.target}"
        if derived:
            others = [line for number, line in enumerate(draft.lines) if number not in derived]
            for name in (f'"{REQUEST_TARGET}"', REQUEST_TARGET):
                yield draft._replace(lines=(*others[: derived[0]], Line(name, target), *others[derived[0] :]))


_VALUE = "Sign the value that RFC 9421 section 2.2 gives the component."

COMPONENT_MISTAKES: tuple[StringMistake, ...] = (
    _row("component-method", "@method", 'The line "@method" does not hold the method as it was sent, in capitals.', _methods,
         "Write the method as it stands in the start line: RFC 9421 does not put it in lower case.", common=True),
    _row("component-query", "@query", 'The line "@query" lacks the question mark that belongs to its value.', _queries,
         "Write the query with its question mark; a target without query has the value ?.", common=True),
    _row("component-path", "@path", 'The line "@path" holds more than the path.', _paths, _VALUE),
    _row("component-target-uri", "@target-uri", 'The line "@target-uri" has another scheme or host than the request, or none.', _uris,
         _VALUE, common=True),
    _row("component-authority", "@authority", 'The line "@authority" is not the host in lower case, with its port unless that is the usual '
         "one.", _authorities, _VALUE, common=True),
    _row("component-scheme", "@scheme", 'The line "@scheme" holds another scheme, or more than the scheme.', _schemes, _VALUE),
    _row("component-request-target", "@request-target", 'The line "@request-target" holds more than the target.', _request_targets, _VALUE),
    StringMistake("component-names-unquoted", Part.STRING, "The names of the components stand without quotes in what was signed.",
                  'Write each line as "name", a colon, one space and the value.', _unquoted, common=True),
    StringMistake("component-parameters", Part.STRING, 'The line "@signature-params" is not the list in Signature-Input.',
                  "Write what follows the label and its equals sign in Signature-Input, byte for byte.", _parameters, common=True,
                  likely=4),
    StringMistake("component-target-of-draft", Part.STRING, "The line (request-target) of draft-cavage was signed in place of components.",
                  "Write a line for each component that Signature-Input names.", _target_line),
)  # fmt: skip
