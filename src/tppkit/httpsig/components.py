"""The parts of a message that an RFC 9421 signature can cover: derived components and fields, by name and parameters.

| component                               | value                                                          | needs an origin |
|-----------------------------------------|----------------------------------------------------------------|-----------------|
| `@method`, `@request-target`            | as in the start line                                           |                 |
| `@path`, `@query`                       | the target's parts as on the wire; `?` when there is no query  |                 |
| `@query-param` with `name`              | one query parameter, decoded and encoded again                 |                 |
| `@scheme`, `@authority`, `@target-uri`  | from the origin                                                | yes             |
| a field                                 | its values, joined                                             |                 |
| a field with `bs`                       | its values, each as a byte sequence                            |                 |
| a field with `key`                      | one member of a dictionary field                               |                 |
| `@status`                               | the status, of an answer only                                  |                 |
| any but `@status`, with `req`           | that of the request, in the signature of an answer only        |                 |

Other components are rejected by name: `tr` is for trailers, and `sf` needs the type of each field. Scheme and authority come
from the caller, because the sender chooses the Host header.
Source: RFC 9421 section 2; 2.4 for `req`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, NoReturn
from urllib.parse import quote_plus, unquote_to_bytes

from tppkit._encoding import encode_base64, shown
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.signing_string import is_covered_field, require_field_value, require_start_line
from tppkit.httpsig.structured import Item, Parameters, parse_dictionary, write_member
from tppkit.message import Answer, Message

_ORIGIN = re.compile(r"(https?)://([a-z0-9._~-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = MappingProxyType({"https": "443", "http": "80"})
_MAX_QUERY_PARAMETERS = 256
STATUS = "@status"
OF_REQUEST = ";req"
_REQ: Parameters = (("req", True),)


class Component(NamedTuple):
    """The identifier of one covered component.

        Component("@method"), Component("@query-param", (("name", "page"),))

    Attributes:
        name: lower case; derived components begin with `@`.
        parameters: (name, value) in order.
    """

    name: str
    parameters: Parameters = ()

    def __str__(self) -> str:
        """The form in Signature-Input and at the start of its line in the signature base."""
        return write_member(Item(*self))


class Origin(NamedTuple):
    """The origin that a request was sent to, which is not in its start line.

    Attributes:
        scheme: `https` or `http`.
        authority: host in lower case, and the port unless it is the scheme's default.
    """

    scheme: str
    authority: str


def parse_origin(text: str) -> Origin:
    """Parse an origin such as `https://bank.example:8443`.

        parse_origin("https://Bank.example:443") == Origin("https", "bank.example")

    Raises:
        FormatError: `origin.malformed`.

    Source: RFC 9421 section 2.2.3; RFC 9110 section 4.2.3.
    """
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        raise FormatError("origin.malformed", f"{shown(text)} is not scheme://host or scheme://host:port")
    scheme, host, port = match.groups()
    return Origin(scheme, host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}")


def shown_origin(origin: Origin) -> str:
    """Format an origin, which may be untrusted, for a message: `"https://bank.example:8443"`."""
    return shown(f"{origin.scheme}://{origin.authority}")


def component_value(
    message: Message, component: Component, *, origin: Origin | None = None, query: dict[str, list[str]] | None = None
) -> str:
    """Return the value of a component in a request.

    Args:
        message: the request.
        component: the part of the request.
        origin: where the request was sent.
        query: a dict, first empty, that keeps the parsed query for further components of the same request.

    Raises:
        FormatError: `signature.unsupported-component`, `header.control-character`, `message.malformed`; those of
            `parse_dictionary` for a field with `key`.
        SignatureRejected: `signature.header-absent`.

    Source: RFC 9421 sections 2.1 and 2.2.
    """
    require_start_line(message)
    parameters = dict(component.parameters)
    if not component.name.startswith("@"):
        return _field(message, component, parameters)
    if component.name == "@query-param" and parameters.keys() == {"name"}:
        return _query_parameter(message, component, parameters["name"], {} if query is None else query)
    if parameters or component.name not in _DERIVED:
        _refuse(component, "it is not a supported component of a request")
    if component.name in _FROM_ORIGIN and origin is None:
        _refuse(component, "it needs the origin that the request was sent to")
    return _DERIVED[component.name](message, component, origin or Origin("", ""))


def answer_component_value(
    answer: Answer, component: Component, *, request: Message, origin: Origin | None = None, query: dict[str, list[str]] | None = None
) -> str:  # fmt: skip
    """Return the value of a component in an answer. Components of the request have the parameter `req`.

    Args:
        answer: the answer.
        component: the part of the answer or of its request.
        request: the request.
        origin: where the request was sent.
        query: as in `component_value`.

    Raises:
        The errors of `component_value`.

    Source: RFC 9421 sections 2.2.9 and 2.4.
    """
    own = tuple([(name, value) for name, value in component.parameters if name != "req"])
    if len(own) < len(component.parameters):
        if not any(name == "req" and value is True for name, value in component.parameters):
            _refuse(component, "the parameter req has a value")
        return component_value(request, Component(component.name, own), origin=origin, query=query)
    if component.name == STATUS and not own:
        return str(answer.status)
    if component.name.startswith("@"):
        _refuse(component, "it is not a part of an answer; one of the request needs the parameter req")
    return _field(answer, component, dict(own))


def is_answer_component(name: str) -> bool:
    """Whether a signature of an answer can cover a name: `@status`, a field, or either of the request with `;req`."""
    plain = name.removesuffix(OF_REQUEST)
    return is_covered_field(plain) or (name == STATUS if plain == name else plain in DERIVED)


def component_of(name: str) -> Component:
    """The component of a name, which may end in `;req`."""
    plain = name.removesuffix(OF_REQUEST)
    return Component(name) if plain == name else Component(plain, _REQ)


def name_of_component(component: Component) -> str:
    """The name of a component as in `component_of`; with other parameters, its form in Signature-Input."""
    if not component.parameters:
        return component.name
    is_of_request = component.parameters == _REQ and component.parameters[0][1] is True
    return component.name + OF_REQUEST if is_of_request else str(component)


def _refuse(component: Component, reason: str) -> NoReturn:
    raise FormatError("signature.unsupported-component", f"{shown(str(component))} cannot be covered: {reason}")


def _path_and_query(message: Message, component: Component) -> tuple[str, str]:
    if not message.target.startswith("/"):
        _refuse(component, f"the target {shown(message.target)} is not a path")
    path, _, query = message.target.partition("?")
    return path, f"?{query}"


def _target_uri(message: Message, component: Component, origin: Origin) -> str:
    _path_and_query(message, component)
    return f"{origin.scheme}://{origin.authority}{message.target}"


_DERIVED: Mapping[str, Callable[[Message, Component, Origin], str]] = MappingProxyType(
    {
        "@method": lambda message, _component, _origin: message.method,
        "@request-target": lambda message, _component, _origin: message.target,
        "@path": lambda message, component, _origin: _path_and_query(message, component)[0],
        "@query": lambda message, component, _origin: _path_and_query(message, component)[1],
        "@scheme": lambda _message, _component, origin: origin.scheme,
        "@authority": lambda _message, _component, origin: origin.authority,
        "@target-uri": _target_uri,
    }
)
DERIVED = frozenset(_DERIVED)  # those without parameters
_FROM_ORIGIN = frozenset({"@scheme", "@authority", "@target-uri"})


def _query_parameter(message: Message, component: Component, name: object, query: dict[str, list[str]]) -> str:
    if not query:
        query.update(_read_query(message, component))
    found = query.get(name, []) if isinstance(name, str) else []
    if not found:
        raise SignatureRejected("signature.header-absent", f"the query has no parameter of {shown(str(component))}")
    if len(found) > 1:
        _refuse(component, "the query has several such parameters; cover @query")
    return _reencoded(found[0], component)


def _read_query(message: Message, component: Component) -> dict[str, list[str]]:
    """Return the values of each query parameter as on the wire, by the name as it is covered."""
    pairs = _path_and_query(message, component)[1].removeprefix("?").split("&", _MAX_QUERY_PARAMETERS)
    if len(pairs) > _MAX_QUERY_PARAMETERS:
        _refuse(component, f"the query has more than {_MAX_QUERY_PARAMETERS} parameters")
    values: dict[str, list[str]] = {}
    for pair in filter(None, pairs):
        key, _, value = pair.partition("=")
        values.setdefault(_reencoded(key, component), []).append(value)
    return values


def _reencoded(text: str, component: Component) -> str:
    """Decode a form field and encode it again, spaces as %20 (RFC 9421 section 2.2.8)."""
    try:
        decoded = unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
    except UnicodeDecodeError:
        _refuse(component, "the query is not UTF-8")
    # The percent-encode set of forms leaves `*` and encodes `~`; quote_plus does the opposite.
    return quote_plus(decoded, safe="*").replace("+", "%20").replace("~", "%7E")


def _field(message: Message | Answer, component: Component, parameters: Mapping[str, object]) -> str:
    if not is_covered_field(component.name):
        _refuse(component, "it is not the name of a field in lower case")
    values = [value.strip(" \t") for value in message.values(component.name)]
    if not values:
        raise SignatureRejected(
            "signature.header-absent", f"the signature covers {component.name}, which is not in the message"
        )
    for value in values:
        require_field_value(component.name, value)
    if not parameters:
        return _joined(component, values)
    if parameters.keys() == {"bs"} and parameters["bs"] is True:
        return ", ".join([f":{encode_base64(value.encode('latin-1'))}:" for value in values])
    if parameters.keys() == {"key"}:
        members = parse_dictionary(", ".join(values), what=f"the {component.name} field")
        key = parameters["key"]
        if not isinstance(key, str) or key not in members:
            raise SignatureRejected("signature.header-absent", f"the message has no value for {shown(str(component))}")
        return write_member(members[key])
    _refuse(component, "these parameters of a field are not supported")


def _joined(component: Component, values: list[str]) -> str:
    joined = ", ".join(values)
    if not joined.isascii():
        _refuse(component, "its value is not ASCII; cover it with the parameter bs")
    return joined
