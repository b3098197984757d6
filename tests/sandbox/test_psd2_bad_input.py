"""Bad input about consents and account data: the code, the echo of X-Request-ID, and no stored change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from account_reader import ACCOUNTS, ALL, ATTENDED, AVAILABLE, CONSENTS, DAILY, Reader, request
from raw_provider import Connect, advance, altered, assert_refused, checked_sandbox

from tppkit.protocol.wire import MAX_BODY_BYTES
from tppkit.sandbox import SandboxSettings
from tppkit.seals import Message

Headers = tuple[tuple[str, str], ...]
FORMAT, UNKNOWN = (400, "FORMAT_ERROR"), (404, "RESOURCE_UNKNOWN")
FROM = "?dateFrom=2026-01-01"
# Every row but the creation, which needs a seal; `{c}` is a valid consent and `{r}` its account.
READS = {
    "consent": ("GET", CONSENTS + "/{c}"),
    "consent_status": ("GET", CONSENTS + "/{c}/status"),
    "delete_consent": ("DELETE", CONSENTS + "/{c}"),
    "accounts": ("GET", ACCOUNTS),
    "balances": ("GET", ACCOUNTS + "/{r}/balances"),
    "transactions": ("GET", ACCOUNTS + "/{r}/transactions" + FROM),
}
DATA = ["accounts", "balances", "transactions"]


class Case:
    """A bank with one valid consent, and what it stores."""

    def __init__(self, reader: Reader, database: Path) -> None:
        self.reader, self._database = reader, database
        self.consent = reader.approved()
        self.resource = reader.place(self.consent).rpartition("/")[2]
        assert self.create().status_code == 201  # unless something is changed

    def stored(self) -> list[Any]:
        tables = ("consents", "consent_reads", "consent_pages", "payments", "request_ids_3600s")
        with sqlite3.connect(self._database) as db:
            return [row for table in tables for row in db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]

    def message(self, name: str, consent: str | None, headers: Headers = (), *, target: str = "") -> Message:
        method, path = READS[name]
        place = (target or path).replace("{c}", self.consent).replace("{r}", self.resource)
        named = () if consent is None else (("Consent-ID", consent),)
        return Message(method, place, (("X-Request-ID", str(uuid4())), *named, *headers))

    def send(self, name: str, more: Headers = (), *, target: str = "", **parts: Any) -> Any:
        """A request of a row while the customer is absent, with something about it changed."""
        return self.reader.provider.send(altered(self.message(name, self.consent, more, target=target), **parts))

    def create(
        self, more: Headers = (), *, media_type: str = "application/json", target: str = CONSENTS, body: Any = None
    ) -> Any:
        """A sealed creation, with something about it changed."""
        content = body if isinstance(body, bytes) else json.dumps(request() | (body or {})).encode()
        headers = (("X-Request-ID", str(uuid4())), ("Content-Type", media_type), *more)
        return self.reader.provider.send(self.reader.provider.sealed(Message("POST", target, headers, content)))


@pytest.fixture(scope="module")
def opened(bank_pki_folder: Path, tmp_path_factory: pytest.TempPathFactory, connect: Connect) -> Iterator[Case]:
    folder = tmp_path_factory.mktemp("bad-input")
    with checked_sandbox(SandboxSettings(folder, pki=bank_pki_folder)) as server:
        yield Case(Reader(connect(server), server), folder / "sandbox.sqlite")


@pytest.fixture
def case(opened: Case) -> Iterator[Case]:
    before = opened.stored()
    yield opened
    assert opened.stored() == before


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(
    "address", ["", "localhost", "192.0.2", "192.0.2.7:80", "fe80::1%eth0", "1.2.3.4, 5.6.7.8", None]
)
def test_an_address_of_the_customer_that_is_not_one_is_refused(case, name, address):
    headers = ATTENDED * 2 if address is None else (("PSU-IP-Address", address),)
    assert_refused(case.send(name, headers), *FORMAT)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("body", [b"{}", b" ", b"\xff", b"x" * (MAX_BODY_BYTES + 1)], ids=len)
def test_an_unexpected_body_is_rejected(case, name, body):
    refused = (413, "FORMAT_ERROR") if len(body) > MAX_BODY_BYTES else FORMAT
    assert_refused(case.send(name, body=body), *refused)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("request_id", [None, "", "7", "{0b4d6a3e-6c58-4f0e-9a55-8a3a4f2f7c11}"])
def test_a_request_without_a_valid_id_is_refused(case, name, request_id):
    headers = () if request_id is None else (("X-Request-ID", request_id),)
    response = case.send(name, headers=(*headers, ("Consent-ID", case.consent)))
    assert (response.status_code, response.json()["tppMessages"][0]["code"]) == FORMAT
    assert "x-request-id" not in response.headers


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize(
    "change",
    [
        lambda path: path + "/", lambda path: path + "%2F", lambda path: path + ";x", lambda path: path + "%00",
        lambda path: path + "/x/y", str.upper, lambda path: path.replace("/v1/", "//v1/"), lambda path: path.replace("/v1/", "/v2/"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_exactly_the_rows_is_unknown(case, name, change):
    path, _, query = READS[name][1].partition("?")
    response = case.send(name, target=change(path) + (query and f"?{query}"))
    # A parameter at the end may hold other letters: another consent, which is unknown too.
    assert response.status_code == 404 or response.json()["tppMessages"][0]["code"] == "CONSENT_UNKNOWN"
    assert response.headers["x-request-id"] == response.request.headers["x-request-id"]


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("accounts", query)
        for query in ("?withBalance", "?withBalance=", "?withBalance=TRUE", "?withBalance=1", "?withBalance=%ff", "?&",
                      "?withBalance=true&withBalance=true", "?" + "&".join(f"x{n}=1" for n in range(40)))
    ]
    + [
        ("transactions", query)
        for query in ("", "?dateFrom", "?dateFrom=2026-02-30", "?dateFrom=%ff", "?dateFrom=%D9%A2026-01-01", "?dateFrom=2026-01-01%00",
                      "?datefrom=2026-01-01", f"{FROM}&dateFrom=2026-01-01", f"{FROM}&dateTo=2025-12-31", f"{FROM}&bookingStatus=all",
                      f"{FROM}&after=", f"{FROM}&after=unknown", f"{FROM}&after=%00", f"{FROM}&after=' OR 1=1",
                      f"{FROM}&after=" + "a" * 3000)
    ],
)  # fmt: skip
def test_a_query_that_is_not_the_rows_is_refused(case, name, query):
    path = READS[name][1].partition("?")[0]
    assert_refused(case.send(name, target=path + query.replace(" ", "%20").replace("'", "%27")), *FORMAT)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(
    ("ids", "status", "code"),
    [
        ([], *FORMAT), ([""], *FORMAT), (["{c}", "{c}"], *FORMAT), (["unknown"], 403, "CONSENT_UNKNOWN"),
        (["{c}0"], 403, "CONSENT_UNKNOWN"), (["é"], 403, "CONSENT_UNKNOWN"), (["a" * 5000], 403, "CONSENT_UNKNOWN"),
        (["{r}"], 403, "CONSENT_UNKNOWN"), (["' OR 1=1 --"], 403, "CONSENT_UNKNOWN"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_consent_that_is_invalid_is_refused(case, name, ids, status, code):
    named = tuple(("Consent-ID", id_.replace("{c}", case.consent).replace("{r}", case.resource)) for id_ in ids)
    assert_refused(case.reader.provider.send(case.message(name, None, named)), status, code)


@pytest.mark.parametrize("name", ["balances", "transactions"])
@pytest.mark.parametrize("resource", ["unknown", DAILY, "a1", "x" * 3000])
def test_an_account_that_is_not_of_the_consent_is_unknown(case, name, resource):
    target = READS[name][1].replace("{r}", resource)
    assert_refused(case.send(name, target=target), 403, "RESOURCE_UNKNOWN")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{}", b"{", b"\xff\xfe{}", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b'{"a":' * 33 + b"1" + b"}" * 33,
        json.dumps(request()).encode()[:-1] + b', "frequencyPerDay": 5}',
        {"access": {**ALL, **AVAILABLE}}, {"access": [ALL]}, {"frequencyPerDay": 0}, {"validUntil": "2020-01-01"},
        {"recurringIndicator": "yes"},
    ],
    ids=lambda body: repr(body)[:50],
)  # fmt: skip
def test_a_body_that_is_not_a_consent_request_is_refused(case, body):
    assert_refused(case.create(body=body), *FORMAT)


@pytest.mark.parametrize(
    ("parts", "status", "code"),
    [
        *(({"more": headers}, *FORMAT) for headers in (
            (("PSU-IP-Address", "here"),), ATTENDED * 2, (("TPP-Redirect-URI", "javascript:alert(1)"),),
            (("TPP-Redirect-URI", "https://a.example/"),) * 2, (("Content-Type", "application/json"),),
        )),
        *(({"media_type": text}, *FORMAT) for text in ("text/plain", "", "application/jose+json", "multipart/form-data")),
        *(({"target": CONSENTS + end}, *UNKNOWN) for end in ("/", "/x/y", "%2F")), ({"target": CONSENTS.upper()}, *UNKNOWN),
        ({"body": json.dumps(request()).encode().ljust(MAX_BODY_BYTES + 1)}, 413, "FORMAT_ERROR"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_consent_request_with_a_bad_part_is_refused(case, parts, status, code):
    assert_refused(case.create(**parts), status, code)


def test_a_certificate_of_another_authority_reads_nothing(case, second_provider, connect):
    other = connect(case.reader.server, qwac=second_provider[0], qseal=second_provider[1])
    for name in READS:
        ours = other.send(case.message(name, case.consent))
        absent = other.send(case.message(name, "x" * len(case.consent), target=READS[name][1].replace("{c}", "x" * 32)))
        assert_refused(ours, 403, "CONSENT_UNKNOWN")
        assert_refused(absent, 403, "CONSENT_UNKNOWN")
        texts = {answer.json()["tppMessages"][0]["text"].replace(case.consent, "x" * 32) for answer in (ours, absent)}
        assert len(texts) == 1


def test_attended_reads_and_polls_store_nothing(case):
    for name in ("consent", "consent_status", *DATA):
        assert case.send(name, ATTENDED).status_code == 200


@pytest.mark.parametrize(
    ("ending", "status", "code"),
    [
        ("none", "received", "CONSENT_INVALID"), ("decline", "revoked", "CONSENT_INVALID"), ("revoke", "revoked", "CONSENT_INVALID"),
        ("wait", "expired", "CONSENT_EXPIRED"),
    ],
)  # fmt: skip
def test_a_consent_that_is_not_valid_reads_nothing(opened, ending, status, code):
    reader, consent = opened.reader, opened.reader.created()
    if ending in ("decline", "revoke"):
        assert reader.decide(consent, ending).json() == {"consentId": consent, "status": status}
    elif ending == "wait":
        advance(reader.server, 301)
    before = opened.stored()
    assert reader.status(consent) == status
    for name in DATA:
        assert_refused(reader.provider.send(opened.message(name, consent)), 401, code)
    if ending != "none":
        for action in ("approve", "decline"):
            refused = reader.decide(consent, action)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "consent.decided")
        assert reader.decide(consent, "revoke").json()["status"] == status
    assert opened.stored() == before
