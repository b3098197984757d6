"""Mistakes in the target, wherever a signing string holds it; and in the line (request-target)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product, zip_longest
from urllib.parse import quote, unquote_to_bytes

from tppkit.httpsig.message import REQUEST_TARGET
from tppkit.seals.diagnose.components import COMPONENT_MISTAKES, hosts_of, target_of
from tppkit.seals.diagnose.draft import Draft, Line, Seen
from tppkit.seals.diagnose.mistake import Part, StringMistake
from tppkit.seals.diagnose.queries import PERCENT, other_orders

_MEND = "Sign path and query exactly as they stand in the start line of the request."
_LINE_MEND = (
    "Sign the lower-case method, a space, and path with query exactly as they stand in the start line of the request."
)
_METHODS = ("POST", "GET", "PUT", "DELETE", "PATCH", "HEAD")

# Of which words base paths are made, in this order, and each may be absent; the labels of the host may stand first as well.
_BASE_PATHS = (
    ("api", "bank", "gateway", "sandbox", "public", "services", "rest", "open"),
    ("psd2", "xs2a", "openbanking", "open-banking", "berlingroup", "berlin-group", "stet", "api"),
    ("v1", "v2", "v3", "1.0", "v1.0", "v1.3", "v3.1"),
)

Targets = Callable[[Seen], Iterator[str]]


def _row(name: str, cause: str, targets: Targets, mend: str = _MEND, *, common: bool = False) -> StringMistake:
    """A row whose variants are other targets, in every line that has one or a part of one, and in each alone."""

    def apply(draft: Draft, seen: Seen) -> Iterator[Draft]:
        places = [place for line in draft.lines if (place := target_of(line)) is not None]
        lists = [list(targets(seen._replace(message=seen.message._replace(target=one.target)))) for one in places]
        for others in zip_longest(*lists):
            written = [(one, one.write(other)) for one, other in zip(places, others, strict=True) if other is not None]
            changed = [(one.line, value) for one, value in written if value != one.line.value]
            if len(changed) > 1:
                yield _with_values(draft, changed)
            yield from (draft.with_value(line.name, value) for line, value in changed)

    return StringMistake(name, Part.STRING, cause, mend, apply, common, 4)


def _with_values(draft: Draft, values: Sequence[tuple[Line, str]]) -> Draft:
    for line, value in values:
        draft = draft.with_value(line.name, value)
    return draft


def _line(
    name: str,
    cause: str,
    lines: Callable[[str, str, Seen], Iterator[str]],
    mend: str = _LINE_MEND,
    *,
    common: bool = False,
) -> StringMistake:
    """A row whose variants are other values of the whole line."""

    def apply(draft: Draft, seen: Seen) -> Iterator[Draft]:
        value = draft.value(REQUEST_TARGET)
        if value is None:
            return
        method, _, target = value.partition(" ")
        for other in lines(method, target, seen):
            if other != value:
                yield draft.with_value(REQUEST_TARGET, other)

    return StringMistake(name, Part.STRING, cause, mend, apply, common, 4)


def _query(seen: Seen) -> tuple[str, str, str]:
    return seen.message.target.partition("?")


def _without_query(seen: Seen) -> Iterator[str]:
    yield seen.path


def _decoded(seen: Seen) -> Iterator[str]:
    path, mark, query = _query(seen)
    yield _unquoted(path) + mark + query
    yield _unquoted(seen.message.target)
    yield _unquoted(path) + mark + _unquoted(query.replace("+", " "))


def _decoded_without_query(seen: Seen) -> Iterator[str]:
    yield _unquoted(seen.path)


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text.encode("latin-1", "replace")).decode("latin-1")


def _encoded_twice(seen: Seen) -> Iterator[str]:
    """Only what has escapes can be encoded once more."""
    path, mark, query = _query(seen)
    if "%" in seen.message.target:
        yield path.replace("%", "%25") + mark + query
        yield seen.message.target.replace("%", "%25")
        yield quote(path, safe="/") + mark + query
        yield quote(seen.message.target, safe="/?&=")
        yield quote(seen.message.target, safe="/")
        yield quote(seen.message.target, safe="")


def _hex_case(seen: Seen) -> Iterator[str]:
    yield PERCENT.sub(lambda match: match[0].lower(), seen.message.target)
    yield PERCENT.sub(lambda match: match[0].upper(), seen.message.target)


def _encoded_otherwise(seen: Seen) -> Iterator[str]:
    path, mark, query = _query(seen)
    yield quote(_unquoted(path), safe="/!$&'()*+,;=:@~") + mark + quote(_unquoted(query), safe="=&/?!$'()*,;:@~")
    yield (
        quote(_unquoted(path), safe="/")
        + mark
        + "&".join(quote(_unquoted(part), safe="=") for part in query.split("&"))
    )
    for safe in ("/%", "/?&=%", "/%:", "/%,", "/%@"):
        yield quote(path, safe=safe) + mark + query
        yield path + mark + quote(query, safe=safe)
        yield quote(seen.message.target, safe=safe)
    yield seen.message.target.replace("~", "%7E")
    yield seen.message.target.replace("~", "%7e")
    yield path + mark + query.replace("%20", "+")
    yield path.replace("%20", "+") + mark + query
    yield seen.message.target.replace("%20", "+")
    yield path + mark + query.replace("+", "%20")


def _fragment(seen: Seen) -> Iterator[str]:
    for name in ("", "top", "/", "main"):
        yield f"{seen.message.target}#{name}"


def _full(seen: Seen) -> Iterator[str]:
    for host in hosts_of(seen):
        for scheme in ("https", "http"):
            yield f"{scheme}://{host}{seen.message.target}"


def _full_without_query(seen: Seen) -> Iterator[str]:
    for host in hosts_of(seen):
        for scheme in ("https", "http"):
            yield f"{scheme}://{host}{seen.path}"


def _host_and_path(seen: Seen) -> Iterator[str]:
    for host in hosts_of(seen):
        yield f"{host}{seen.message.target}"
        yield f"//{host}{seen.message.target}"


def _stripped(seen: Seen) -> Iterator[str]:
    parts = seen.message.target.split("?", 1)[0].split("/")
    mark, query = _query(seen)[1:]
    for count in range(1, min(len(parts) - 1, 12)):
        rest = "/".join(parts[count + 1 :])
        yield f"/{rest}{mark}{query}"
        yield f"{rest}{mark}{query}"


def _before_gateway(seen: Seen) -> Iterator[str]:
    prefix = seen.values.get("x-forwarded-prefix", "")
    if prefix:
        yield prefix.rstrip("/") + seen.message.target
    for name in (
        "x-original-uri",
        "x-original-url",
        "x-forwarded-uri",
        "x-forwarded-path",
        "x-envoy-original-path",
        "x-rewrite-url",
    ):
        original = seen.values.get(name, "")
        if original:
            yield re.sub(r"^https?://[^/]*", "", original)


def _under_base_path(seen: Seen) -> Iterator[str]:
    first, *others = _BASE_PATHS
    labels = dict.fromkeys(label for host in hosts_of(seen) for label in host.partition(":")[0].split(".")[:6])
    for words in product(("", *others[1]), ("", *others[0]), ("", *labels, *first)):
        if any(words):
            yield "".join(f"/{word}" for word in reversed(words) if word) + seen.message.target


def _slash(seen: Seen) -> Iterator[str]:
    path, mark, query = _query(seen)
    yield f"{path.rstrip('/')}{mark}{query}"
    yield f"{path.rstrip('/')}/{mark}{query}"
    yield re.sub(r"/{2,}", "/", path) + mark + query
    yield f"{path.removeprefix('/')}{mark}{query}"
    yield f"/{seen.message.target}"


def _query_order(seen: Seen) -> Iterator[str]:
    path, mark, query = _query(seen)
    if mark:
        yield from (f"{path}?{other}" for other in other_orders(query))


def _question_mark(seen: Seen) -> Iterator[str]:
    yield f"{seen.path}?{'' if '?' not in seen.message.target else seen.message.target.partition('?')[2]}"
    yield seen.message.target.removesuffix("?")
    yield seen.message.target.removesuffix("&")


def _lower_path(seen: Seen) -> Iterator[str]:
    yield seen.message.target.lower()
    yield seen.path.lower() + "".join(_query(seen)[1:])


def _query_alone(seen: Seen) -> Iterator[str]:
    mark, query = _query(seen)[1:]
    if mark:
        yield query


def _method_case(method: str, target: str, seen: Seen) -> Iterator[str]:
    yield f"{method.upper()} {target}"
    yield f"{method.capitalize()} {target}"


def _other_method(method: str, target: str, seen: Seen) -> Iterator[str]:
    for other in _METHODS:
        yield f"{other.lower()} {target}"


def _no_method(method: str, target: str, seen: Seen) -> Iterator[str]:
    yield target
    yield f" {target}"


def _no_space(method: str, target: str, seen: Seen) -> Iterator[str]:
    yield f"{method}{target}"
    yield f"{method}: {target}"
    yield f"{method}  {target}"


def _version(method: str, target: str, seen: Seen) -> Iterator[str]:
    for spelled in (method, method.upper()):
        yield f"{spelled} {target} HTTP/1.1"
        yield f"{spelled} {target} HTTP/2"


def _upper_start_line(draft: Draft, seen: Seen) -> Iterator[Draft]:
    """The `request-line` of the first drafts: no name, the start line as it stands."""
    for number, line in enumerate(draft.lines):
        if line.name == REQUEST_TARGET:
            method, _, target = line.value.partition(" ")
            for text in (
                f"{method.upper()} {target} HTTP/1.1",
                f"{method} {target}",
                f"{method.upper()} {target}",
                target,
            ):
                yield draft._replace(lines=(*draft.lines[:number], Line("", text, ""), *draft.lines[number + 1 :]))


TARGET_MISTAKES: tuple[StringMistake, ...] = (
    _row("target-without-query", "The query was left out of the signed target.", _without_query, common=True),
    _row("target-decoded", "The path (or query) in the signed target was percent-decoded.", _decoded,
         "Take the target as it is sent (raw path, not the decoded one that frameworks offer).", common=True),
    _row("target-decoded-without-query", "The path in the signed target was percent-decoded and the query left out.",
         _decoded_without_query, "Take the target as it is sent: raw path and query."),
    _row("target-encoded-twice", "The signed target was percent-encoded once more.", _encoded_twice,
         "Encode once, and sign what is sent."),
    _row("target-escape-case", "Percent escapes in the signed target have letters of another case than those sent.", _hex_case),
    _row("target-encoded-otherwise", "Characters in the signed target are encoded otherwise than in the target that was sent.",
         _encoded_otherwise),
    _row("target-fragment", "The signed target holds the fragment (#…), which is never sent.", _fragment,
         "Sign the target as it is sent: without # and what follows."),
    _row("target-full-url", "The signed target holds the whole address instead of path and query.", _full, common=True),
    _row("target-full-url-without-query", "The signed target holds the whole address without the query, as Java's getRequestURL gives it.",
         _full_without_query, common=True),
    _row("target-with-host", "The signed target holds the host before the path.", _host_and_path),
    _row("target-base-path-stripped",
         "The first part of the path is missing from the signed target, as if the service were mounted below it.",
         _stripped, "Sign the path from the root of the host, with every prefix that the bank's address has.", common=True),
    _row("target-before-gateway", "The signed target is the one from before a gateway rewrote it.", _before_gateway,
         "Verify against the original target: let the gateway pass it on unchanged."),
    _row("target-base-path-removed",
         "The signed target begins with a base path that the target that arrived lacks: a proxy removed it.", _under_base_path,
         "Verify against the target as it was sent: let the proxy pass it on unchanged, or put the base path back before verifying."),
    _row("target-slash", "A slash more or less stands in the signed target than in the target that was sent.", _slash),
    _row("target-query-order", "The query in the signed target has its parts in another order.", _query_order),
    _row("target-question-mark", "A question mark or ampersand at the end was added to or dropped from the signed target.",
         _question_mark),
    _row("target-lower-case", "The signed target was written in lower case.", _lower_path),
    _row("target-query-alone", "The signed target holds the query without the path.", _query_alone),
    _line("method-upper-case", "The method in (request-target) is not in lower case.", _method_case, common=True),
    _line("method-other", "The method in (request-target) is not the one that was sent.", _other_method),
    _line("method-missing", "The method is missing from (request-target).", _no_method),
    _line("target-spacing", "Method and target in (request-target) are not separated by one space.", _no_space),
    _line("target-with-version", "(request-target) holds the HTTP version as well.", _version),
    StringMistake("target-as-start-line", Part.STRING, "The line of (request-target) stands without its name, as in the first drafts.",
                  "Begin the line with (request-target) and a colon.", _upper_start_line),
    *COMPONENT_MISTAKES,
)  # fmt: skip
