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
from tppkit.seals.diagnose.signatures import digest_by

SIGNATURE_PARAMS = '"@signature-params"'
MAX_LINES = 32
_PERMUTED = 4  # lines; of more, only the usual orders are tried
_PRINTED = ("{}", "{}\n", "{}  -\n", "SHA2-256(stdin)= {}\n", "(stdin)= {}\n")  # how shell tools print a hash

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


def _targets(targets: Callable[[str, Seen], Iterator[str]]) -> Apply:
    """Other targets in the lines that contain the one that was sent."""

    def apply(string: SigningString, seen: Seen) -> Iterator[SigningString]:
        target = seen.message.target
        for other in targets(target, seen):
            lines = tuple([line._replace(value=_with_target(line, target, other)) for line in string.lines])
            if lines != string.lines:
                yield string._replace(lines=lines)

    return apply


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


# By the names of `mistakes.toml`.
STRING_MISTAKES: Mapping[str, Apply] = MappingProxyType({
    "target-without-query": _targets(_without_query),
    "target-decoded": _targets(_decoded),
    "target-plus": _targets(_spaces),
    "target-parameters": _targets(_parameters),
    "target-full-url": _targets(_full_url),
    "target-base-path-stripped": _targets(_base_path_stripped),
    "target-base-path-removed": _targets(_base_path_removed),
    "target-slash": _targets(_slash),
    "method-upper-case": _method_upper_case,
    "value-digest-other": _digest_other,
    "header-missing": _left_out,
    "order": _orders,
    "header-added": _added,
    "names-not-lower-case": _names,
    "colon-no-space": _no_space,
    "string-newline-after": _joined(("\n", "\n"), ("\n", "\r\n"), ("\n", "\n\n")),
    "string-crlf": _joined(("\r\n", ""), ("\r\n", "\r\n")),
    "string-joined-otherwise": _joined(*[(text, "") for text in ("", "\\n", " ", ", ", ",", "\r")]),
    "signed-body": _signed_body,
    "hashed-first": _hashed(bytes),
    "hashed-first-as-hex": _hashed(*[lambda hashed, form=form: form.format(hashed.hex()).encode() for form in _PRINTED]),
    "hashed-first-as-base64": _hashed(lambda hashed: encode_base64(hashed).encode()),
})  # fmt: skip
