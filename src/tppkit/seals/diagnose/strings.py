"""Mistakes in a signing string: its target, its lines, how they are joined, and other bytes signed in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, permutations, product
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from tppkit._encoding import encode_base64
from tppkit.httpsig.signing_string import REQUEST_TARGET
from tppkit.message import Message
from tppkit.seals.diagnose.mistakes import Mistake, Part
from tppkit.seals.diagnose.signatures import digest_by

SIGNATURE_PARAMS = '"@signature-params"'
MAX_LINES = 32
_PERMUTED = 4  # lines; of more, only the usual orders are tried
_PRINTED = ("{}", "{}\n", "{}  -\n", "SHA2-256(stdin)= {}\n", "(stdin)= {}\n")  # how shell tools print a hash

_LINE = "Write each line as the name in lower case, a colon, one space and the value; join the lines by one line feed."
_JOIN = "Join the lines by one line feed, without one after the last."
_ONCE = "Pass the signing string itself to the function that signs; it hashes by itself."
_TARGET = "Sign path and query exactly as they are in the start line of the request."
# The words that base paths are made of, in this order; each may be absent.
_BASE_PATHS = (
    ("api", "gateway", "sandbox"),
    ("psd2", "xs2a", "openbanking", "berlingroup"),
    ("v1", "v2"),
)
_ORDERS = 24  # of parameters: all of up to four
_FORWARDED = ("x-original-uri", "x-original-url", "x-forwarded-uri", "x-forwarded-path", "x-envoy-original-path")


class Line(NamedTuple):
    """One line of a signing string: name as written, value with its bytes as Latin-1, and what is between them."""

    name: str
    value: str
    colon: str = ": "

    @property
    def component(self) -> str:
        """The name in lower case, without the quotes of RFC 9421."""
        return self.name.strip('"').lower()


class SigningString(NamedTuple):
    """What may have been signed, in parts that mistakes can change one by one.

    Attributes:
        lines: in order.
        joiner: the text between lines.
        after: the text after the last line.
        instead: the body, if that was signed in its place.
        prefix: of a JSON Web Signature, its protected header and the dot after it.
    """

    lines: tuple[Line, ...]
    joiner: str = "\n"
    after: str = ""
    instead: bytes | None = None
    prefix: str = ""

    @classmethod
    def from_bytes(cls, raw: bytes, *, is_jws: bool) -> SigningString:
        """The parts of a signing string as the verifier makes it."""
        prefix, dot, text = raw.decode("latin-1").partition(".") if is_jws else ("", "", raw.decode("latin-1"))
        lines = [line.partition(": ") for line in text.split("\n")]
        return cls(tuple([Line(name, value, colon) for name, colon, value in lines]), prefix=prefix + dot)

    def text(self) -> bytes:
        """The bytes of the lines."""
        lines = self.joiner.join([f"{name}{colon}{value}" for name, value, colon in self.lines])
        return f"{self.prefix}{lines}{self.after}".encode("latin-1", "replace")

    def signed(self) -> bytes:
        """The bytes that were signed."""
        return self.text() if self.instead is None else self.instead

    def value(self, component: str) -> str | None:
        """The value of a line."""
        return next((line.value for line in self.lines if line.component == component), None)

    def with_value(self, component: str, value: str) -> SigningString:
        """The same with another value in a line."""
        return self._replace(
            lines=tuple([line._replace(value=value) if line.component == component else line for line in self.lines])
        )


class Seen(NamedTuple):
    """What the mistakes may use.

    Attributes:
        message: as received.
        values: every component by lower-case name.
        digests: values that the digest header could have had.
        digest_name: of that header, in lower case.
    """

    message: Message
    values: Mapping[str, str]
    digests: tuple[str, ...]
    digest_name: str


# What may have been signed, given the right signing string.
Apply = Callable[[SigningString, Seen], Iterator[SigningString]]


def _row(name: str, cause: str, apply: Apply, fix: str = _LINE) -> tuple[Mistake, Apply]:
    return Mistake(name, Part.STRING, cause, fix), apply


# ---- the target, in every line that contains it: `(request-target)`, and in RFC 9421 those of sections 2.2 and 2.5


def _with_target(line: Line, target: str, other: str) -> str:
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


def _target_row(
    name: str, cause: str, targets: Callable[[str, Seen], Iterator[str]], fix: str = _TARGET
) -> tuple[Mistake, Apply]:
    def apply(string: SigningString, seen: Seen) -> Iterator[SigningString]:
        target = seen.message.target
        for other in targets(target, seen):
            lines = tuple([line._replace(value=_with_target(line, target, other)) for line in string.lines])
            if lines != string.lines:
                yield string._replace(lines=lines)

    return _row(name, cause, apply, fix)


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


_TARGET_MISTAKES: tuple[tuple[Mistake, Apply], ...] = (
    _target_row("target-without-query", "The query is missing from the signed target.", _without_query),
    _target_row("target-decoded", "The path (or query) in the signed target was percent-decoded.", _decoded,
         "Use the target as it is sent (the raw path, not the decoded one that frameworks offer)."),
    _target_row("target-plus", "A space in the query was signed as %20 and sent as +, or signed as + and sent as %20.", _spaces,
         "Write the query once, and sign it as it is sent: for params=, httpx and requests write +, where urllib.parse.quote writes %20."),
    _target_row("target-parameters", "The parameters of the query were signed in another order than they were sent.", _parameters,
         "Sign the query as it is sent, and let no gateway sort its parameters."),
    _target_row("target-full-url", "The signed target is the whole address instead of path and query.", _full_url),
    _target_row("target-base-path-stripped", "The first part of the path is missing from the signed target.",
         _base_path_stripped, "Sign the path from the root of the host, with every prefix that the bank's address has."),
    _target_row("target-base-path-removed",
         "The signed target has a base path that the target that arrived lacks: a proxy or gateway removed it.",
         _base_path_removed, "Verify against the target as it was sent: let the proxy pass it on unchanged."),
    _target_row("target-slash", "The signed target has a slash more or less than the target that was sent.", _slash),
    _row("method-upper-case", "The method in (request-target) is not in lower case.", _method_upper_case,
         "Sign the method in lower case, a space, and path with query as in the start line."),
)  # fmt: skip


# ---- lines, and the whole


def _joined(*joints: tuple[str, str]) -> Apply:
    """The lines with other texts between them, and after the last one."""
    return lambda string, seen: (string._replace(joiner=joiner, after=after) for joiner, after in joints)


def _hashed(*forms: Callable[[bytes], bytes]) -> Apply:
    """The hash of the signing string in its place."""

    def apply(string: SigningString, seen: Seen) -> Iterator[SigningString]:
        text = string.text()
        for name in ("SHA-256", "SHA-512", "SHA-1"):
            hashed = digest_by(name, text)
            yield from (SigningString((), after=form(hashed).decode("latin-1")) for form in forms)

    return apply


def _orders(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    lines, sent = string.lines, list(dict.fromkeys([name.lower() for name, _ in seen.message.headers]))
    yield string._replace(lines=tuple(sorted(lines)))
    yield string._replace(lines=lines[::-1])
    places = {name: place for place, name in enumerate(sent)}
    for target in (-1, len(sent)):
        placed = places | {REQUEST_TARGET: target}
        yield string._replace(lines=tuple(sorted(lines, key=lambda line: placed.get(line.component, len(sent) + 1))))
    if len(lines) <= _PERMUTED:
        yield from (string._replace(lines=order) for order in permutations(lines))


def _left_out(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    for number in range(len(string.lines[:MAX_LINES])):
        yield string._replace(lines=string.lines[:number] + string.lines[number + 1 :])


def _added(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    present = {line.component for line in string.lines} | {"signature", "signature-input"}
    quote = '"' if any(line.name == SIGNATURE_PARAMS for line in string.lines) else ""
    more = [
        Line(f"{quote}{name}{quote}", value) for name, value in islice(seen.values.items(), 64) if name not in present
    ]
    for line in more[:MAX_LINES]:
        for place in (len(string.lines), 0):
            yield string._replace(lines=(*string.lines[:place], line, *string.lines[place:]))


def _names(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    sent = {name.lower(): name for name, _ in seen.message.headers}
    spellings: tuple[Callable[[str], str], ...] = (lambda name: sent.get(name, name), _capitalised, str.upper)
    for write in spellings:
        lines = [line if line.name[:1] in '("' else line._replace(name=write(line.name)) for line in string.lines]
        yield string._replace(lines=tuple(lines))


def _capitalised(name: str) -> str:
    return re.sub(r"(?<![a-z0-9])[a-z]", lambda first: first[0].upper(), name)


def _no_space(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    yield string._replace(lines=tuple([line._replace(colon=":") for line in string.lines]))


def _digest_other(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    if string.value(seen.digest_name) is not None:
        yield from (string.with_value(seen.digest_name, digest) for digest in seen.digests)


def _signed_body(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    if seen.message.body:
        for before in dict.fromkeys((string.prefix.encode("latin-1"), b"")):
            yield string._replace(instead=before + seen.message.body)


_LINE_MISTAKES: tuple[tuple[Mistake, Apply], ...] = (
    _row("value-digest-other", "The signature covers another digest than the one that was sent: that of the body, or of a form of it.",
         _digest_other, "Set the digest once, from the bytes that are sent, and sign that value."),
    _row("header-missing", "A header that the headers parameter names is missing from what was signed.", _left_out,
         "Sign every header that the headers parameter names, or name fewer."),
    _row("order", "The lines were signed in another order than the headers parameter names them.", _orders,
         "Write the lines in the order of the headers parameter."),
    _row("header-added", "A header was signed that the headers parameter does not name.",
         _added, "Name every signed header in the headers parameter."),
    _row("names-not-lower-case", "The names of the headers are not in lower case in what was signed.", _names),
    _row("colon-no-space", "No space follows the colon in what was signed.", _no_space),
    _row("string-newline-after", "A line break follows the last line of what was signed.",
         _joined(("\n", "\n"), ("\n", "\r\n"), ("\n", "\n\n")), _JOIN),
    _row("string-crlf", "The lines were joined by CR LF instead of LF.", _joined(("\r\n", ""), ("\r\n", "\r\n")), _JOIN),
    _row("string-joined-otherwise", "The lines were not joined by line feeds.",
         _joined(*[(text, "") for text in ("", "\\n", " ", ", ", ",", "\r")]), _JOIN),
    _row("signed-body", "The body was signed, not the signing string.", _signed_body,
         "Sign the lines of the signing string; the digest covers the body."),
    _row("hashed-first", "The signature is over the hash of the signing string: it was hashed twice.",
         _hashed(bytes), _ONCE),
    _row("hashed-first-as-hex", "The signature is over the hash of the signing string in hexadecimal text.",
         _hashed(*[lambda hashed, form=form: form.format(hashed.hex()).encode() for form in _PRINTED]), _ONCE),
    _row("hashed-first-as-base64", "The signature is over the hash of the signing string in base64 text.",
         _hashed(lambda hashed: encode_base64(hashed).encode()), _ONCE),
)  # fmt: skip

STRING_MISTAKES: Mapping[Mistake, Apply] = MappingProxyType(dict((*_TARGET_MISTAKES, *_LINE_MISTAKES)))
