"""Mistakes in the target, in every line of a signing string that contains it.

The lines are `(request-target)` in draft-cavage and JSON Web Signatures, and `@request-target`, `@target-uri`, `@path` and `@query` in
RFC 9421 (sections 2.2 and 2.5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, permutations, product
from urllib.parse import unquote_to_bytes

from tppkit.httpsig.message import REQUEST_TARGET
from tppkit.seals.diagnose.mistakes import Mistake, Part
from tppkit.seals.diagnose.strings import Apply, Line, Seen, SigningString

_FIX = "Sign path and query exactly as they are in the start line of the request."
# The words that base paths are made of, in this order; each may be absent.
_BASE_PATHS = (
    ("api", "gateway", "sandbox"),
    ("psd2", "xs2a", "openbanking", "berlingroup"),
    ("v1", "v2"),
)
_ORDERS = 24  # of parameters: all of up to four
_FORWARDED = ("x-original-uri", "x-original-url", "x-forwarded-uri", "x-forwarded-path", "x-envoy-original-path")


def _write(line: Line, target: str, other: str) -> str:
    """The value of a line for another target than the one that was sent."""
    if line.component == "@path":
        return other.partition("?")[0]
    if line.component == "@query" and "?" in target:
        return "".join(other.partition("?")[1:])
    if line.component == "@target-uri" and "://" in other:
        return line.value  # where the whole address is due
    if line.component in (REQUEST_TARGET, "@request-target", "@target-uri") and line.value.endswith(target):
        return line.value[: len(line.value) - len(target)] + other
    return line.value


def _row(
    name: str, cause: str, targets: Callable[[str, Seen], Iterator[str]], fix: str = _FIX
) -> tuple[Mistake, Apply]:
    def apply(string: SigningString, seen: Seen) -> Iterator[SigningString]:
        target = seen.message.target
        for other in targets(target, seen):
            lines = tuple([line._replace(value=_write(line, target, other)) for line in string.lines])
            if lines != string.lines:
                yield string._replace(lines=lines)

    return Mistake(name, Part.STRING, cause, fix), apply


def _without_query(target: str, seen: Seen) -> Iterator[str]:
    yield target.partition("?")[0]


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text.encode("latin-1", "replace")).decode("latin-1")


def _decoded(target: str, seen: Seen) -> Iterator[str]:
    path, mark, query = target.partition("?")
    yield _unquoted(path) + mark + query
    yield _unquoted(target)
    yield _unquoted(path) + mark + _unquoted(query.replace("+", " "))


def _spaces(target: str, seen: Seen) -> Iterator[str]:
    path, mark, query = target.partition("?")
    yield path + mark + query.replace("+", "%20")
    yield path + mark + query.replace("%20", "+")


def _parameters(target: str, seen: Seen) -> Iterator[str]:
    path, mark, query = target.partition("?")
    given = query.split("&")
    for order in (sorted(given), given[::-1], *islice(permutations(given), _ORDERS)):
        yield path + mark + "&".join(order)


def _full_url(target: str, seen: Seen) -> Iterator[str]:
    hosts = dict.fromkeys([host for name in ("host", "x-forwarded-host") if (host := seen.values.get(name))])
    yield from (f"{scheme}://{host}{target}" for host in hosts for scheme in ("https", "http"))


def _base_path_stripped(target: str, seen: Seen) -> Iterator[str]:
    path, mark, query = target.partition("?")
    parts = path.split("/")
    for count in range(1, min(len(parts) - 1, 12) if target.startswith("/") else 0):
        yield f"/{'/'.join(parts[count + 1 :])}{mark}{query}"


def _base_path_removed(target: str, seen: Seen) -> Iterator[str]:
    prefix = seen.values.get("x-forwarded-prefix", "")
    if prefix:
        yield prefix.rstrip("/") + target
    for name in _FORWARDED:
        if seen.values.get(name):
            yield re.sub(r"^https?://[^/]*", "", seen.values[name])
    for words in product(*[("", *words) for words in _BASE_PATHS]):
        if any(words):
            yield "".join([f"/{word}" for word in words if word]) + target


def _slash(target: str, seen: Seen) -> Iterator[str]:
    path, mark, query = target.partition("?")
    yield f"{path.rstrip('/')}{mark}{query}"
    yield f"{path.rstrip('/')}/{mark}{query}"
    yield re.sub(r"/{2,}", "/", path) + mark + query
    yield f"{path.removeprefix('/')}{mark}{query}"
    yield f"/{target}"


def _method_upper_case(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    method, space, target = (string.value(REQUEST_TARGET) or "").partition(" ")
    if space:
        yield from (
            string.with_value(REQUEST_TARGET, f"{form} {target}") for form in (method.upper(), method.capitalize())
        )


TARGET_MISTAKES: tuple[tuple[Mistake, Apply], ...] = (
    _row("target-without-query", "The query is missing from the signed target.", _without_query),
    _row("target-decoded", "The path (or query) in the signed target was percent-decoded.", _decoded,
         "Use the target as it is sent (the raw path, not the decoded one that frameworks offer)."),
    _row("target-plus", "A space in the query was signed as %20 and sent as +, or signed as + and sent as %20.", _spaces,
         "Write the query once, and sign it as it is sent: for params=, httpx and requests write +, where urllib.parse.quote writes %20."),
    _row("target-parameters", "The parameters of the query were signed in another order than they were sent.", _parameters,
         "Sign the query as it is sent, and let no gateway sort its parameters."),
    _row("target-full-url", "The signed target is the whole address instead of path and query.", _full_url),
    _row("target-base-path-stripped", "The first part of the path is missing from the signed target.",
         _base_path_stripped, "Sign the path from the root of the host, with every prefix that the bank's address has."),
    _row("target-base-path-removed", "The signed target has a base path that the target that arrived lacks: a proxy or gateway removed it.",
         _base_path_removed, "Verify against the target as it was sent: let the proxy pass it on unchanged."),
    _row("target-slash", "The signed target has a slash more or less than the target that was sent.", _slash),
    (Mistake("method-upper-case", Part.STRING, "The method in (request-target) is not in lower case.",
             "Sign the method in lower case, a space, and path with query as in the start line."), _method_upper_case),
)  # fmt: skip
