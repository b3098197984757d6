"""An interface as data: one row for each endpoint. The client builds requests from the rows, the host answers by them.

PSD2.find("GET", "/psd2/v1/payments/sepa-credit-transfers/1234/status").row is PAYMENT_STATUS
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote, unquote_plus, urlencode

from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError
from tppkit.protocol.adapted import AdaptedAnswer, RequiredFields
from tppkit.protocol.refusals import Refusals
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import Body

MAX_PATH = 4096
MAX_QUERY_NAMES = 32

_PARAMETER = re.compile(r"\{([a-z_]+)\}")
# A parameter on the wire (assumption path-form): only unreserved characters (RFC 3986 section 2.3), because other software may decode
# others again, cut the path at a semicolon or see other segments.
_SEGMENT = r"((?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+)"
_VALUE = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._~-]+")

Q = TypeVar("Q")
A = TypeVar("A")


def is_streamed(body: Body[Any] | CsvRows[Any]) -> bool:
    """Whether a body is sent row by row."""
    return isinstance(body, CsvRows)


class Auth(StrEnum):
    """The authentication that an endpoint requires."""

    NONE = "none"
    QWAC = "qwac"
    SEAL = "seal"  # and a QWAC of the same organisation
    API_KEY = "api-key"
    BASIC = "basic"


class Query(NamedTuple):
    """A query parameter of an endpoint.

    Attributes:
        name: its name.
        required: a request without it is rejected.
        only: the row is for requests with this value.
        default: what a client sends if its caller gives no value.
    """

    name: str
    required: bool = False
    only: str | None = None
    default: str | None = None


class RequiredHeader(NamedTuple):
    """A header that an endpoint requires.

    Attributes:
        name: its name.
        default: what a client sends if its caller gives no value; None: the caller must give one.
    """

    name: str
    default: str | None = None


class Once(NamedTuple):
    """The id by which a repeated request is recognised.

    Attributes:
        header: the header with the id, lower case.
        window: how long the id is remembered; None: without limit.
    """

    header: str
    window: timedelta | None = None

    @property
    def text(self) -> str:
        """The id and its window in words, for example `X-Request-ID within 3600 seconds`."""
        shown = "X-Request-ID" if self.header == "x-request-id" else self.header
        return shown if self.window is None else f"{shown} within {self.window // timedelta(seconds=1)} seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[Q, A]):
    """One endpoint.

    Attributes:
        name: short name, the same in the client's method and in the host's handler.
        method: HTTP method.
        path: path with `{parameter}` places, from the host's root.
        source: where the document shows the row.
        auth: the required authentication.
        request: the body of a request.
        answer: the body of a success, whole or row by row.
        success: HTTP status of a success.
        role: the PSD2 role that the QWAC must have, or None.
        query: the query parameters.
        once: a repeated request gets the first answer again; None: each request is carried out.
        safe: whether a client may repeat it.
        headers: the headers that a request must have, in addition to those that the interface or the handler reads.
        answer_headers: further headers of a success, with places such as `{self}` for facts of the handler.
    """

    name: str
    method: str
    path: str
    source: str
    auth: Auth
    request: Body[Q]
    answer: Body[A] | CsvRows[A]
    success: int = 200
    role: str | None = None
    query: tuple[Query, ...] = ()
    once: Once | None = None
    safe: bool = False
    headers: tuple[RequiredHeader, ...] = ()
    answer_headers: tuple[tuple[str, str], ...] = ()

    def write_answer(self, value: A, facts: Mapping[str, str]) -> bytes:
        """The body of a success, empty with status 204.

        Args:
            value: what the handler answers.
            facts: what else the handler knows, for the fields that another bank's answer has.
        """
        if self.success == 204:
            return b""
        body = self.whole
        return body.write_with(value, facts) if isinstance(body, AdaptedAnswer) else body.write(value)

    @property
    def further_fields(self) -> Collection[str]:
        """The names of the fields that the bank knows in addition to those of the model, or requires although the model does not."""
        request = self.request
        return (*request.fields, *request.optional) if isinstance(request, RequiredFields) else ()

    @property
    def whole(self) -> Body[A]:
        """The answer of a row that is not streamed.

        Raises:
            ConfigurationError: `endpoint.streamed`.
        """
        if is_streamed(self.answer):
            raise ConfigurationError("endpoint.streamed", f"the answer of {self.name} is streamed")
        return cast("Body[A]", self.answer)

    @property
    def rows(self) -> CsvRows[A]:
        """The answer of a row that is streamed.

        Raises:
            ConfigurationError: `endpoint.streamed`.
        """
        if not is_streamed(self.answer):
            raise ConfigurationError("endpoint.streamed", f"the answer of {self.name} is not streamed")
        return cast("CsvRows[A]", self.answer)

    def target(self, query: Mapping[str, str] | None = None, /, **parameters: str) -> str:
        """The path with these parameters, each percent-encoded as one path segment, and the query with the row's constants."""
        path = _PARAMETER.sub(lambda match: quote(parameters[match.group(1)], safe=""), self.path)
        constants = {wanted.name: wanted.only for wanted in self.query if wanted.only is not None}
        pairs = {**(query or {}), **constants}
        return f"{path}?{urlencode(pairs, quote_via=quote, safe='')}" if pairs else path

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return the parameters of a path, each decoded once; None if the path is not this row's.

        The match is exact, including case, slashes and dot segments; only parameters may be percent-encoded. A decoded parameter has
        only ASCII letters, digits and `-._~`, and is not a dot segment.

        Args:
            path: the path as on the wire, without query.
        """
        pattern, names = _pattern(self.path)
        found = pattern.fullmatch(path) if len(path) <= MAX_PATH else None
        if found is None:
            return None
        values = [unquote(value) for value in found.groups()]
        if not all(map(_VALUE.fullmatch, values)):
            return None
        return dict(zip(names, values, strict=True))

    def unknown_query(self, target: str) -> tuple[str, ...]:
        """Return the names of the query parameters of a target that the row does not name, decoded; of the first 32 parameters."""
        pairs = filter(None, target.partition("?")[2].split("&", MAX_QUERY_NAMES)[:MAX_QUERY_NAMES])
        names = dict.fromkeys(unquote_plus(pair.partition("=")[0]) for pair in pairs)
        return tuple(names.keys() - {one.name for one in self.query})

    def takes(self, query: Mapping[str, str]) -> bool:
        """Whether a request with this query has the values that select this row."""
        return all(wanted.only is None or query.get(wanted.name) == wanted.only for wanted in self.query)


class Route(NamedTuple):
    """The endpoint of a request.

    Attributes:
        row: its row.
        parameters: the parameters of its path, decoded.
        query: the query parameters that the row names, decoded.
    """

    row: Endpoint[Any, Any]
    parameters: Mapping[str, str]
    query: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Interface:
    """An interface: its endpoints, and how it reports failures.

    Attributes:
        name: short name.
        endpoints: the rows.
        refusals: the error table.
        default_auth: the authentication that is required before a caller learns that a path is unknown.
        request_id: the header with the request id, which answers echo, lower case, or None.
        any_2xx: every 2xx status is a success, not only the one of the row.
        parse_request_id: returns the id, or raises FormatError; called with None if the header is absent.

    Example:
        route = PSD2.find(method, target)
        route.row.role, route.parameters["payment_id"]
    """

    name: str
    endpoints: tuple[Endpoint[Any, Any], ...]
    refusals: Refusals
    default_auth: Auth
    request_id: str | None = None
    parse_request_id: Callable[[str | None], str | None] = lambda text: text
    any_2xx: bool = False

    def named(self, row: Endpoint[Q, A]) -> Endpoint[Q, A]:
        """Return the row of this interface with the name of a row, which may be of another bank.

        Raises:
            LocalProtocolError: `endpoint.unknown`.
        """
        found = self._by_name.get(row.name)
        if found is None:
            raise LocalProtocolError("endpoint.unknown", f"this bank has no endpoint {row.name}")
        return found

    def is_success(self, row: Endpoint[Any, Any], status: int) -> bool:
        """Whether a status is a success of a row; banks answer a DELETE with 200, 202 or 204."""
        return status == row.success or ((self.any_2xx or row.method == "DELETE") and 200 <= status < 300)

    def find(self, method: str, target: str) -> Route:
        """Return the endpoint of a request.

        Args:
            method: HTTP method, upper case.
            target: path and query as on the wire, from the host's root.

        Raises:
            LocalProtocolError: `endpoint.unknown`, `endpoint.method`.
            FormatError: `query.malformed`, `query.duplicate`, `query.value`, `query.missing`; authenticate by `row_of` before you
                report these.
        """
        path, _, text = target.partition("?")
        rows = self._matches(method, path)
        if not rows:
            allowed = ", ".join(self.methods(path))
            if not allowed:
                raise LocalProtocolError("endpoint.unknown", "no endpoint has this path")
            raise LocalProtocolError("endpoint.method", f"the methods of this path are {allowed}")
        if not any(row.query for row, _ in rows):
            # A query that the endpoint does not read need not be well formed.
            return Route(*rows[0], {})
        query = _parse_query(text)
        constants = [(one.name, one.only) for row, _ in rows for one in row.query if one.only is not None]
        for name, only in constants:
            if name in query and (name, query[name]) not in constants:
                raise FormatError("query.value", f"{name} is not {only}")
        # The row with the most constants that fit; rows differ in their constants.
        fitting = [(row, parameters) for row, parameters in rows if row.takes(query)] or rows
        row, parameters = max(fitting, key=lambda found: sum(wanted.only is not None for wanted in found[0].query))
        for wanted in row.query:
            if (wanted.required or wanted.only is not None) and wanted.name not in query:
                raise FormatError("query.missing", f"{row.method} {row.path} needs the query parameter {wanted.name}")
        return Route(row, parameters, {one.name: query[one.name] for one in row.query if one.name in query})

    def row_of(self, method: str, target: str) -> Endpoint[Any, Any] | None:
        """Return the first row for a method and path, ignoring the query; None for an unknown path or method."""
        matches = self._matches(method, target.partition("?")[0])
        return matches[0][0] if matches else None

    def _matches(self, method: str, path: str) -> list[tuple[Endpoint[Any, Any], Mapping[str, str]]]:
        rows = self._by_shape.get((method, path.count("/")), ())
        return [(row, parameters) for row in rows if (parameters := row.match(path)) is not None]

    @cached_property
    def _by_shape(self) -> Mapping[tuple[str, int], Sequence[Endpoint[Any, Any]]]:
        """The rows by method and number of slashes; no parameter has one."""
        rows: dict[tuple[str, int], list[Endpoint[Any, Any]]] = {}
        for row in self.endpoints:
            rows.setdefault((row.method, row.path.count("/")), []).append(row)
        return rows

    @cached_property
    def _by_name(self) -> Mapping[str, Endpoint[Any, Any]]:
        return {row.name: row for row in self.endpoints}

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods of a path, in the order of the rows; empty for an unknown path."""
        return tuple(dict.fromkeys(row.method for row in self.endpoints if row.match(path) is not None))


def _parse_query(text: str) -> Mapping[str, str]:
    if not text:
        return {}
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=MAX_QUERY_NAMES
        )
    except ValueError:
        raise FormatError(
            "query.malformed", f"the query is not name=value&name=value in UTF-8, with at most {MAX_QUERY_NAMES} names"
        ) from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise FormatError("query.duplicate", "the query names a parameter more than once")
    return query


@lru_cache(maxsize=256)
def _pattern(path: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return the pattern of a row's path, and the names of its parameters."""
    literals, names = _PARAMETER.split(path)[::2], _PARAMETER.findall(path)
    return re.compile(_SEGMENT.join(map(re.escape, literals)), re.ASCII), tuple(names)
