"""The Berlin Group's published OpenAPI file as a judge of requests and answers, and a client that knows nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

import httpx
import pytest

from tppkit.seals import Message, Seal, sign_request

# Headers of HTTP itself, which an OpenAPI file does not name.
_HTTP = frozenset(
    {"host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length", "date"}
)
_NAME = "urn:berlin-group"


class Published:
    """The file, which is read once.

    Args:
        folder: the shared data.
    """

    def __init__(self, folder: Path) -> None:
        validators = pytest.importorskip("openapi_schema_validator", reason="the dev extra installs it")
        import yaml
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT4

        text = (folder / "openapi" / "psd2-api_v1.3.11.yaml").read_text("utf-8")
        self.document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # both are safe
        self._registry = Registry().with_resource(_NAME, Resource(contents=self.document, specification=DRAFT4))
        self._validator = validators.OAS30Validator
        self._formats = validators.oas30_format_checker
        self._paths = [
            (re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)), path, item)
            for path, item in sorted(self.document["paths"].items(), key=lambda pair: pair[0].count("{"))
        ]

    def read(self, part: Any) -> Any:
        """A part of the file behind its references."""
        while "$ref" in part:
            found = self.document
            for step in part["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            part = found
        return part

    def check(self, value: Any, schema: Any) -> None:
        """Fail unless a value fits a schema of the file."""
        absolute = json.loads(json.dumps(schema, default=str).replace('"#/', f'"{_NAME}#/'))
        validator = self._validator(absolute, registry=self._registry, format_checker=self._formats)
        faults = [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(value)]
        assert not faults, faults

    def operation(self, method: str, path: str) -> tuple[str, Any, dict[tuple[str, str], Any]]:
        """The path's template, the operation, and its parameters by place and lower-case name."""
        template, item = next((name, item) for form, name, item in self._paths if form.fullmatch(path))
        operation = item[method.lower()]
        parameters = map(self.read, (*item.get("parameters", ()), *operation.get("parameters", ())))
        return template, operation, {(one["in"], one["name"].lower()): one for one in parameters}

    def check_request(self, request: httpx.Request, *, followed: bool = False) -> str:
        """Fail unless a request is one of the file; a link that was followed may have a query of its own. Returns its name."""
        template, operation, parameters = self.operation(request.method, request.url.path)
        query = dict(parse_qsl(request.url.query.decode(), keep_blank_values=True))
        given = {("header", name): value for name, value in request.headers.items()}
        given |= {("query", name.lower()): value for name, value in query.items()}
        steps = zip(template.split("/"), request.url.path.split("/"), strict=True)
        given |= {("path", one.strip("{}").lower()): value for one, value in steps if one.startswith("{")}
        for key, parameter in parameters.items():
            assert key in given or not parameter.get("required"), f"{request.method} {template} lacks {key}"
            if key in given:
                schema, text = self.read(parameter["schema"]), given[key]
                is_text = schema.get("type") == "string"
                self.check(text if is_text else json.loads(text), parameter["schema"])
        for place, name in given.keys() - parameters.keys():
            assert (place == "header" and name in _HTTP) or (place == "query" and followed), (template, place, name)
        body = operation.get("requestBody")
        if body is None:
            assert not request.content, template
        else:
            self.check(json.loads(request.content), self.read(body)["content"]["application/json"]["schema"])
        return f"{request.method} {template}"

    def check_answer(self, answer: httpx.Response) -> None:
        """Fail unless an answer is one that the file has for its request."""
        _, operation, _ = self.operation(answer.request.method, answer.request.url.path)
        assert str(answer.status_code) in operation["responses"], (
            answer.request.method,
            answer.request.url.path,
            answer,
        )
        described = self.read(operation["responses"][str(answer.status_code)])
        for name, header in described.get("headers", {}).items():
            header = self.read(header)
            if name.lower() == "x-request-id" and name not in answer.request.headers:
                continue  # nothing to echo
            assert name in answer.headers or not header.get("required"), name
            if name in answer.headers:
                self.check(answer.headers[name], header["schema"])
        content = described.get("content")
        if content is None:
            assert not answer.content or answer.status_code >= 400, answer.text
            return
        forms = {name.partition("+")[2] or name: one for name, one in content.items()}  # application/problem+json too
        self.check(answer.json(), content.get("application/json", next(iter(forms.values())))["schema"])


class Judged(httpx.BaseTransport):
    """A transport whose requests and answers must all fit the file.

    Args:
        inner: sends the requests.
        published: the file.

    Attributes:
        seen: method and template of each request, with the status of its answer.
    """

    def __init__(self, inner: httpx.BaseTransport, published: Published) -> None:
        self._inner, self._published = inner, published
        self._links: set[str] = set()
        self.seen: list[tuple[str, int]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        target = request.url.raw_path.decode()
        name = self._published.check_request(request, followed=target in self._links)
        answer = self._inner.handle_request(request)
        answer.read()
        answer.request = request
        self._published.check_answer(answer)
        self._links |= set(re.findall(r'"href":"([^"]+)"', answer.text))
        self.seen.append((name, answer.status_code))
        return answer


class IndependentClient:
    """A client written from the file alone. It fills what the file requires, and follows links; only its seals are of tppkit.

    Args:
        http: a connection with the certificate of the provider.
        published: the file.
        seal: what seals the requests with a body.
        values: by lower-case name: what to send for the parameters and fields that the file requires; can be added to.
    """

    def __init__(self, http: httpx.Client, published: Published, seal: Seal, values: dict[str, Any]) -> None:
        self._http, self._published, self._seal, self.values = http, published, seal, values

    def required(self, method: str, path: str) -> list[str]:
        """The lower-case names of the headers, query parameters and fields that an operation requires."""
        _, operation, parameters = self._published.operation(method, path)
        names = [name for (place, name), one in parameters.items() if one.get("required") and place != "path"]
        fields = self._schemas(operation)[0]["required"] if "requestBody" in operation else []
        return [*names, *(name.lower() for name in fields)]

    def send(self, method: str, path: str, *, without: str = "") -> httpx.Response:
        """Send an operation with everything that it requires, and check request and answer; or without one of these."""
        _, operation, parameters = self._published.operation(method, path)
        required = {key: one for key, one in parameters.items() if one.get("required")}
        values = self.values | {"x-request-id": str(uuid4())}
        headers = [(one["name"], values[name]) for (place, name), one in required.items() if place == "header"]
        query = {
            one["name"]: values[name] for (place, name), one in required.items() if place == "query" and name != without
        }
        if path.endswith("/transactions"):
            query["dateFrom"] = values["datefrom"]  # described as mandated, though not marked as required
        target = path + (f"?{httpx.QueryParams(query)}" if query else "")
        message = Message(method, target, tuple(headers))
        if "requestBody" in operation:
            (schema, *_) = self._schemas(operation)
            body = {name: self.values[name.lower()] for name in schema["required"] if name.lower() != without}
            whole = (*headers, ("Content-Type", "application/json"))
            message = sign_request(Message(method, target, whole, json.dumps(body).encode()), seal=self._seal)
        headers = [one for one in message.headers if one[0].lower() != without]
        sent = self._http.request(message.method, message.target, headers=headers, content=message.body or None)
        if not without:
            self._published.check_request(sent.request)
        self._published.check_answer(sent)
        return sent

    def _schemas(self, operation: Any) -> list[Any]:
        schema = self._published.read(operation["requestBody"])["content"]["application/json"]["schema"]
        return [self._published.read(one) for one in self._published.read(schema).get("oneOf", [schema])]
