"""Interfaces as OpenAPI 3.1 documents, from their endpoint rows, error tables and models.

A document says what each field can hold, and not which rules join fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from tppkit.errors import FormatError
from tppkit.protocol.adapted import AdaptedAnswer, RequiredFields
from tppkit.protocol.endpoint import Auth, Endpoint, Interface, Query
from tppkit.protocol.refusals import FAILURE, MAX_TEXT, Refusal, RefusalRow, Refusals
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import Json, JsonArray, WireModel

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
# Assumption path-form; "." and ".." are refused too.
_SEGMENT: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._~-]+$"}
_REF = "#/components/schemas/{model}"
# Not of an endpoint: a client that follows the document calls no other method.
_OTHER_METHOD = "endpoint.method"
_OTHER_PATH = "endpoint.unknown"


class HeaderField(NamedTuple):
    """A header.

    Attributes:
        name: its name.
        text: what it holds.
        schema: of its value.
        required: a message without it is rejected.
    """

    name: str
    text: str
    schema: Schema = TEXT
    required: bool = False


class Sent(NamedTuple):
    """A request of the service to its client.

    Attributes:
        request: the model of its body, None for none.
        answer: the model of the answer, None if its body is ignored.
        headers: its headers.
    """

    request: type[WireModel] | None
    answer: type[WireModel] | None = None
    headers: tuple[HeaderField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a document says in addition to the rows.

    Attributes:
        title: of the document.
        text: its description.
        schemes: the security schemes, by name.
        security: returns the required schemes of an endpoint, each with the roles that it needs.
        parameters: the schemas of parameters of paths and queries, by name.
        headers: returns the headers of an endpoint's requests; those of its row are added.
        answer_headers: the headers of all answers.
        scopes: for a code of the error table or its beginning, the names of the endpoints that refuse with it; the longest counts, and
            a code that is absent is one of every endpoint.
        examples: a value of a body, by its model or the class of its body.
        facts: for the examples of answers of another bank, see `AdaptedAnswer.write_with`.
        webhooks: what the service sends, by name and method.
        names: the names of schemas, by those of their classes.
    """

    title: str
    text: str = ""
    schemes: Mapping[str, Schema]
    security: Callable[[Endpoint[Any, Any]], Mapping[str, list[str]]]
    parameters: Mapping[str, Schema] = field(default_factory=dict)
    headers: Callable[[Endpoint[Any, Any]], Iterable[HeaderField]] = lambda row: ()
    answer_headers: tuple[HeaderField, ...] = ()
    scopes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    examples: Mapping[type[Any], Any] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    webhooks: Mapping[str, Mapping[str, Sent]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def openapi_document(description: Description, hosts: Mapping[str, Interface]) -> dict[str, Any]:
    """Return the OpenAPI document of an interface.

    Args:
        description: what the rows do not say.
        hosts: the interfaces by the addresses of their hosts; all have the error table of the first.

    Source: OpenAPI Specification 3.1.0.
    """
    return _Writer(description, hosts).document()


class _Schemas(GenerateJsonSchema):
    """Schemas of what we take and write: a union of known values and text has the known ones; absent fields have no default."""

    names: Mapping[str, str] = {}

    def normalize_name(self, name: str) -> str:
        return self.names.get(name) or super().normalize_name(name)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        inner = self.generate_inner(schema["schema"])
        if isinstance(inner.get("type"), str) and "enum" not in inner:
            return inner | {"type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}

    def union_schema(self, schema: Any) -> dict[str, Any]:
        found = super().union_schema(schema)
        known, *others = found.get("anyOf", [found])
        return known if "$ref" in known and others == [{"type": "string"}] else found


class _Writer:
    """Writes a document. Arguments are those of `openapi_document`."""

    def __init__(self, description: Description, hosts: Mapping[str, Interface]) -> None:
        self.description = description
        self.hosts = hosts
        self.main = next(iter(hosts.values()))
        self.rows = [row for interface in hosts.values() for row in interface.endpoints]
        self.models = self._models()
        self.responses: dict[str, dict[str, Any]] = {}

    def document(self) -> dict[str, Any]:
        """The document."""
        paths = self._paths()
        found: dict[str, Any] = {
            "openapi": "3.1.0",
            "info": {"title": self.description.title, "description": self.description.text, "version": "1"},
            "servers": [{"url": next(iter(self.hosts))}],
            "paths": paths,
            "webhooks": {
                name: {method.lower(): self._sent(one) for method, one in methods.items()}
                for name, methods in self.description.webhooks.items()
            },
            "components": {
                "securitySchemes": self.description.schemes,
                "responses": dict(sorted(self.responses.items())),
                "schemas": dict(sorted({"Refusal": _refusal_schema(self.main.refusals), **self.models}.items())),
            },
        }
        return {name: part for name, part in found.items() if part}

    def _paths(self) -> dict[str, dict[str, Any]]:
        paths: dict[str, dict[str, Any]] = {}
        for url, interface in self.hosts.items():
            for row in interface.endpoints:
                path = paths.setdefault(row.path, {} if interface is self.main else {"servers": [{"url": url}]})
                method = row.method.lower()
                if method not in path:
                    path[method] = self._operation(row, interface)
                operation = path[method]  # else of another row: this one is its other answer
                operation["parameters"] += [_query(one, self.description.parameters) for one in row.query]
                content = self._content(row.answer) if row.success != HTTPStatus.NO_CONTENT else {}
                if content:
                    operation["responses"][str(row.success)].setdefault("content", {}).update(content)
        return paths

    def _operation(self, row: Endpoint[Any, Any], interface: Interface) -> dict[str, Any]:
        security = self.description.security(row)
        repeats = () if row.once is None else (f"A repeated {row.once.text} gets the first answer again.",)
        further = (HeaderField(one.name, "Required by this bank.", required=True) for one in row.headers)
        headers = {one.name.lower(): one for one in (*further, *self.description.headers(row))}
        operation: dict[str, Any] = {
            "operationId": row.name,
            "description": " ".join((f"Source: {row.source}.", *repeats)),
            "security": [security] if security else [],
            "parameters": [
                *(
                    {
                        "name": name,
                        "in": "path",
                        "required": True,
                        "schema": self.description.parameters.get(name, _SEGMENT),
                    }
                    for name in re.findall(r"\{(\w+)\}", row.path)
                ),
                *(_header(one) for one in headers.values()),
            ],
        }
        content = self._content(row.request)
        if content:
            operation["requestBody"] = {"required": True, "content": content}
        answer_headers = [*self.description.answer_headers, *(HeaderField(name, "") for name, _ in row.answer_headers)]
        success: dict[str, Any] = {"description": "Success."}
        if answer_headers:
            success["headers"] = _response_headers(answer_headers)
        operation["responses"] = {str(row.success): success, **self._refusals(row, interface)}
        return operation

    def _refusals(self, row: Endpoint[Any, Any], interface: Interface) -> dict[str, dict[str, str]]:
        codes: dict[int, set[str]] = {FAILURE.status: {FAILURE.code}}
        for refusal in interface.refusals.rows:
            if self._refuses(row, refusal):
                codes.setdefault(refusal.status, set()).add(refusal.peer_code)
        return {
            str(status): {"$ref": f"#/components/responses/{self._response(row, status, sorted(found))}"}
            for status, found in sorted(codes.items())
        }

    def _refuses(self, row: Endpoint[Any, Any], refusal: RefusalRow) -> bool:
        if refusal.code == _OTHER_METHOD or (refusal.code == _OTHER_PATH and "{" not in row.path):
            return False
        scopes = self.description.scopes
        fitting = [code for code in scopes if RefusalRow(code, 0, "").fits(refusal.code)]
        return not fitting or row.name in scopes[max(fitting, key=len)]

    def _response(self, row: Endpoint[Any, Any], status: int, codes: list[str]) -> str:
        """Return the name of the response with these codes: rows with equal ones share it."""
        headers = [*self.description.answer_headers]
        if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
            headers.append(HeaderField("Retry-After", "Seconds to wait.", {"type": "integer", "minimum": 0}))
        if status == HTTPStatus.UNAUTHORIZED and row.auth is Auth.BASIC:
            headers.append(HeaderField("WWW-Authenticate", "The scheme and realm to authenticate for."))
        schema = {"allOf": [{"$ref": _REF.format(model="Refusal")}, _with_codes(self.main.refusals, codes)]}
        example = json.loads(self.main.refusals.write(Refusal(status, codes[0], "the reason of the refusal")))
        response: dict[str, Any] = {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(codes)}.",
            "content": {"application/json": {"schema": schema, "example": example}},
        }
        if headers:
            response["headers"] = _response_headers(headers)
        number = 1
        while self.responses.setdefault(name := f"Refused{status}" + f"-{number}" * (number > 1), response) != response:
            number += 1
        return name

    def _sent(self, sent: Sent) -> dict[str, Any]:
        success: dict[str, Any] = {"description": "Acknowledged; the body is ignored."}
        operation: dict[str, Any] = {"security": [], "responses": {"2XX": success}}
        if sent.headers:
            operation["parameters"] = [_header(one) for one in sent.headers]
        if sent.request is not None:
            operation["requestBody"] = {"required": True, "content": self._content(Json(sent.request))}
        if sent.answer is not None:
            success |= {"description": "Accepted.", "content": self._content(Json(sent.answer))}
        return operation

    def _content(self, body: Any) -> dict[str, Any]:
        """The media type of a body with its schema and example; empty for none."""
        if body.media_type is None:
            return {}
        content = {"schema": self._body(body)}
        example = self._example(body)
        return {body.media_type: content if example is None else {**content, "example": example}}

    def _body(self, body: Any) -> Schema:
        match body:
            case Json(model=model):
                return {"$ref": self._ref(model)}
            case JsonArray(model=model):
                return {"type": "array", "items": {"$ref": self._ref(model)}}
            case CsvRows(columns=columns):
                return {"type": "string", "description": f"Columns: {', '.join(columns)}."}
            case RequiredFields(inner=inner, fields=fields):
                return {"allOf": [self._body(inner), {"required": [*fields]}]} if fields else self._body(inner)
            case AdaptedAnswer():
                return self._adapted(body)
        schema: Schema = body.schema
        return schema

    def _adapted(self, body: AdaptedAnswer[Any]) -> Schema:
        """The schema of an answer with the bank's names of fields and states."""
        schema = self.models[self._named(body.inner.model)]
        properties = dict(schema["properties"])
        for name, states in body.states.items():
            named = properties[name].get("$ref", "").rpartition("/")[2]
            ours = (self.models[named] if named else properties[name])["enum"]
            theirs = dict.fromkeys([*(states.written.get(one, one) for one in ours), *states.written.values()])
            properties[name] = {"type": "string", "enum": sorted(theirs)}
        required = [body.names.get(name, name) for name in schema.get("required", ())]
        return {
            **schema,
            "properties": {body.names.get(name, name): one for name, one in properties.items()},
            **({"required": required} if required else {}),
        }

    def _example(self, body: Any) -> Any:
        model = (
            body.inner.model if isinstance(body, RequiredFields | AdaptedAnswer) else getattr(body, "model", type(body))
        )
        value = self.description.examples.get(model)
        if value is None or isinstance(body, CsvRows):
            return None
        if isinstance(body, AdaptedAnswer):
            return json.loads(body.write_with(value, self.description.facts))
        try:
            return json.loads(body.write((value,) if isinstance(body, JsonArray) else value))
        except FormatError:  # this bank requires a field that the example does not have
            return None

    def _ref(self, model: type[WireModel]) -> str:
        return _REF.format(model=self._named(model))

    def _named(self, model: type[WireModel]) -> str:
        return self.description.names.get(model.__name__, model.__name__)

    def _models(self) -> dict[str, Any]:
        bodies: list[Any] = [getattr(body, "inner", body) for row in self.rows for body in (row.request, row.answer)]
        sent = [one for methods in self.description.webhooks.values() for one in methods.values()]
        models = dict.fromkeys(
            [
                *(body.model for body in bodies if isinstance(body, Json | JsonArray)),
                *(model for one in sent for model in (one.request, one.answer) if model is not None),
            ]
        )
        generator = type("_Named", (_Schemas,), {"names": self.description.names})
        _, found = models_json_schema(
            [(model, "validation") for model in models], ref_template=_REF, schema_generator=generator
        )
        for schema in found["$defs"].values():
            if "description" in schema:
                schema["description"] = schema["description"].partition("\n")[0]
        return dict(found["$defs"])


def _header(one: HeaderField) -> dict[str, Any]:
    return {"name": one.name, "in": "header", "required": one.required, "description": one.text, "schema": one.schema}


def _response_headers(headers: Iterable[HeaderField]) -> dict[str, Any]:
    return {one.name: ({"description": one.text} if one.text else {}) | {"schema": one.schema} for one in headers}


def _query(wanted: Query, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    # A parameter with a constant selects the answer, so that a request without it is one of another row.
    schema = schemas.get(wanted.name, TEXT) if wanted.only is None else {"type": "string", "enum": [wanted.only]}
    return {"name": wanted.name, "in": "query", "required": wanted.required, "schema": schema}


def _refusal_schema(refusals: Refusals) -> Any:
    codes = sorted({row.peer_code for row in refusals.rows} | {FAILURE.code})
    return _form_of(_specimen(refusals), {"type": "string", "enum": codes}, {"type": "string", "maxLength": MAX_TEXT})


def _with_codes(refusals: Refusals, codes: list[str]) -> Any:
    """The schema of a body with one of these codes, in addition to that of `_refusal_schema`."""
    return _form_of(_specimen(refusals), {"enum": codes}, None)


_CODE, _TEXT = "CODE", "text"


def _specimen(refusals: Refusals) -> Any:
    return json.loads(refusals.write(Refusal(HTTPStatus.BAD_REQUEST, _CODE, _TEXT)))


def _form_of(value: Any, code: Schema, text: Schema | None) -> Any:
    """The schema of a body from a specimen of it; None for `text` leaves out everything but the code."""
    if isinstance(value, dict):
        parts = {name: _form_of(one, code, text) for name, one in value.items()}
        properties = {name: one for name, one in parts.items() if one is not None}
        if text is None:
            return {"properties": properties} if properties else None
        return {"type": "object", "required": [*properties], "properties": properties}
    if isinstance(value, list):
        items = _form_of(value[0], code, text)
        return {"items": items} if text is None else {"type": "array", "minItems": 1, "items": items}
    if value == _CODE:
        return code
    if text is None:
        return None
    return text if value == _TEXT else {"const": value}
