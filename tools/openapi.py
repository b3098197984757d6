"""The gateway and its vault as an OpenAPI 3.1 document, from their endpoint rows and models; `make docs` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.gateway.endpoints import EXTENSION, GATEWAY, VAULT
from tppkit.protocol.gateway.orders import OrderTransaction
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.protocol.refusals import MAX_TEXT
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import Json, JsonArray

_REF = "#/components/schemas/{model}"
_ROWS = (*GATEWAY.endpoints, *VAULT.endpoints)
_REFUSALS = GATEWAY.refusals.rows
# A schema's name is a part of the public document: generated clients have it as a class.
_NAMES = {OrderTransaction.__name__: OrderTransaction.model_config["title"]}


class _Schemas(GenerateJsonSchema):
    """Schemas of what we take and write: a union of known values and text has the known ones; absent fields have no default."""

    def normalize_name(self, name: str) -> str:
        return _NAMES.get(name) or super().normalize_name(name)

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


def document() -> dict[str, Any]:
    """The document; schemas say what a field can hold, and not which rules join fields."""
    paths: dict[str, dict[str, Any]] = {}
    for row in _ROWS:
        path = paths.setdefault(row.path, {})
        if row in VAULT.endpoints:
            path["servers"] = [{"url": "https://vault.example"}]
        operation = path.setdefault(row.method.lower(), _operation(row))
        for query in row.query:  # a row with a constant is an operation's other answer
            schema = {"type": "string", "enum": [query.only]}
            operation.setdefault("parameters", []).append({"name": query.name, "in": "query", "schema": schema})
        operation["responses"][str(row.success)]["content"].update(_content(row.answer))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Payment gateway and card vault",
            "description": f"Paths under {EXTENSION}/ exist in the sandbox only.",
            "version": "1",
        },
        "servers": [{"url": "https://gateway.example"}],
        "security": [{"project": []}],
        "paths": paths,
        "webhooks": {"status_changed": {"post": _webhook()}},
        "components": {
            "securitySchemes": {
                "project": {"type": "http", "scheme": "basic", "description": "The API key as user name, no password."}
            },
            "responses": {
                "Refusal": {
                    "description": "The request was refused.",
                    "content": {"application/json": {"schema": {"$ref": _REF.format(model="Refusal")}}},
                }
            },
            "schemas": _schemas(),
        },
    }


def _operation(row: Endpoint[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": row.name}
    names = re.findall(r"\{(\w+)\}", row.path)
    if names:
        uuid = {"type": "string", "format": "uuid"}
        operation["parameters"] = [{"name": name, "in": "path", "required": True, "schema": uuid} for name in names]
    if isinstance(row.request, Json):
        operation["requestBody"] = {"required": True, "content": _content(row.request)}
    statuses = ["4XX", *sorted({str(refusal.status) for refusal in _REFUSALS if refusal.status >= 500})]
    refusals = {status: {"$ref": "#/components/responses/Refusal"} for status in statuses}
    operation["responses"] = {str(row.success): {"description": "Success.", "content": {}}, **refusals}
    return operation


def _webhook() -> dict[str, Any]:
    return {
        "security": [],
        "requestBody": {"required": True, "content": _content(Json(StatusChanged))},
        "responses": {"2XX": {"description": "Acknowledged; the body is ignored."}},
    }


def _content(body: Any) -> dict[str, Any]:
    schema: Mapping[str, Any]
    match body:
        case Json(model=model):
            schema = {"$ref": _REF.format(model=model.__name__)}
        case JsonArray(model=model):
            schema = {"type": "array", "items": {"$ref": _REF.format(model=model.__name__)}}
        case CsvRows(columns=columns):
            schema = {"type": "string", "description": f"Columns: {', '.join(columns)}."}
    return {body.media_type: {"schema": schema}}


def _schemas() -> dict[str, Any]:
    bodies: Iterable[Any] = (body for row in _ROWS for body in (row.request, row.answer))
    models = dict.fromkeys([*(body.model for body in bodies if isinstance(body, Json | JsonArray)), StatusChanged])
    _, found = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REF, schema_generator=_Schemas
    )
    error = {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "enum": sorted({row.peer_code for row in _REFUSALS})},
            "message": {"type": "string", "maxLength": MAX_TEXT},
        },
    }
    refusal = {"type": "object", "required": ["error"], "properties": {"error": error}}
    schemas = {"Refusal": refusal, **found["$defs"]}
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = schema["description"].partition("\n")[0]
    return dict(sorted(schemas.items()))
