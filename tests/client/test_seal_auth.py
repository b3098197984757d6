"""Requests of either library, sealed: for one origin, the same id and body on a retry, never along a redirect."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from http_drivers import HTTP_DRIVERS, HttpDriver
from rogue_bank import RogueBank, egress_proxy, http, rogue_bank, server_context

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import Identity, SealAuth
from tppkit.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.jws import BODY
from tppkit.seals import verify_request

pytestmark = pytest.mark.slow

ID = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"
REPEATED = ("X-Request-ID", "Digest", "TPP-Signature-Certificate")


@pytest.fixture(params=HTTP_DRIVERS)
def driver(request: pytest.FixtureRequest) -> HttpDriver:
    """Each of the four clients."""
    return HTTP_DRIVERS[request.param]


@pytest.fixture
def send(driver: HttpDriver, identity: Identity, server: RogueBank) -> Callable[..., list[Any]]:
    """Sends requests to the server with a seal for it, by each of the four clients."""

    def sent(*steps: Callable[[Any, SealAuth], Any], by: Identity = identity, **options: Any) -> list[Any]:
        auth = SealAuth(by, origin=server.url, **options)
        return driver.run(by, *[lambda client, step=step: step(client, auth) for step in steps])

    return sent


def repeated(bank: RogueBank, number: int) -> tuple[Any, ...]:
    """What a repetition has in common with its request."""
    sent = bank.message(number)
    return (sent.method, sent.target, sent.body, *(sent.values(name) for name in REPEATED))


def without_signature(request: Any) -> list[tuple[bytes, bytes]]:
    return [field for field in request.headers.raw if field[0] != b"Signature"]


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/psd2/v1/payments/sepa-credit-transfers", b'{"a": 1}'),
        ("GET", "/a%2Fb/%e4;v=1?x=%2F&y=a+b&z=%20&empty=&%C3%A4", b""),
        ("GET", "/?", b""),
        ("PUT", "/päth?q=ü x", b"\x00\xff"),
    ],
)
def test_what_goes_over_the_wire_is_sealed(method, target, body, send, server, require_seal):
    send(lambda client, auth: client.request(method, server.url + target, content=body, auth=auth))
    require_seal(server.message())
    assert server.message().body == body


@pytest.mark.parametrize("body", [b'{"a": 1}', b""], ids=["body", "no body"])
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_request_is_sealed_as_each_row_of_the_table_has_it(method, body, driver, dialects, server):
    headers = {
        "Content-Type": "application/json", "x-amz-access-token": "Atza|x", "PSU-ID": "max",
        "TPP-Redirect-URI": "https://tpp.example/back",
    }  # fmt: skip
    able = [one for one in dialects.values() if body or one.profile.covered != (BODY,)]  # nothing to sign
    for number, dialect in enumerate(able):
        auth = SealAuth(dialect.identity, origin=server.url)
        driver.run(
            dialect.identity,
            lambda client, auth=auth: client.request(
                method, server.url + "/x?y=%2F", content=body, headers=headers, auth=auth
            ),
        )
        qwac = dialect.identity.qwac
        verified = verify_request(server.message(number), qwac=qwac, at=utc_now(), policy=dialect.policy)
        assert (verified.body, verified.profile.name) == (body, dialect.profile.name)


def test_a_body_that_is_streamed_is_sealed(driver, send, server, require_seal):
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one", b"two"):
            yield part

    content = parts() if driver.is_async else iter([b"one", b"two"])
    headers = {"Content-Length": "6"}
    send(lambda client, auth: client.post(server.url, content=content, headers=headers, auth=auth))
    require_seal(server.message())
    assert server.message().body == b"onetwo"


def test_a_request_keeps_the_id_and_the_trace_that_it_has(driver, send, server):
    seen: list[str] = []

    async def trace_async(event: str, info: Any) -> None:
        seen.append(event)

    trace = trace_async if driver.is_async else lambda event, info: seen.append(event)
    further = {"headers": {"x-request-id": ID}, "extensions": {"trace": trace}}
    send(lambda client, auth: client.get(server.url, auth=auth, **further))
    assert server.message().values("X-Request-ID") == (ID,)
    assert "http11.send_request_headers.started" in seen


def test_a_request_that_another_auth_sealed_before_is_sealed_again(driver, identity, server, dialects, require_seal):
    other = dialects["open-finance"]
    auths = [SealAuth(identity, origin=server.url), SealAuth(other.identity, origin=server.url)]
    kept: list[Any] = []

    def send(client: Any, auth: Any) -> Any:
        kept[:] = kept or [client.build_request("POST", server.url, content=b"{}")]
        return client.send(kept[0], auth=auth)

    driver.run(identity, *[lambda client, auth=auth: send(client, auth) for auth in (*auths, auths[0], *auths)])
    for number in (0, 2, 3):
        require_seal(server.message(number))
        assert server.message(number).values("x-jws-signature") == ()
    for number in (1, 4):
        sent = server.message(number)
        verify_request(sent, qwac=other.identity.qwac, at=utc_now(), policy=other.policy)
        assert sent.values("Signature") == sent.values("TPP-Signature-Certificate") == ()
    assert repeated(server, 0) == repeated(server, 2) == repeated(server, 3)


@pytest.fixture
def library(driver: HttpDriver) -> Any:
    return driver.library


class Flow:
    """One sending of a request, step by step, of either kind."""

    def __init__(self, auth: SealAuth, request: Any, runner: asyncio.Runner | None) -> None:
        self._runner = runner
        self._flow: Any = auth.sync_auth_flow(request) if runner is None else auth.async_auth_flow(request)

    def begin(self) -> Any:
        return next(self._flow) if self._runner is None else self._runner.run(anext(self._flow))

    def end(self, response: Any) -> None:
        with suppress(StopIteration, StopAsyncIteration):
            self._flow.send(response) if self._runner is None else self._runner.run(self._flow.asend(response))

    def fail(self) -> None:
        self._flow.close() if self._runner is None else self._runner.run(self._flow.aclose())


@pytest.fixture
def begin(driver: HttpDriver) -> Iterator[Callable[[SealAuth, Any], tuple[Flow, Any]]]:
    """Begins to send a request: gives the sending, and what is sent."""
    with asyncio.Runner() as runner:

        def start(auth: SealAuth, request: Any) -> tuple[Flow, Any]:
            flow = Flow(auth, request, runner if driver.is_async else None)
            return flow, flow.begin()

        yield start


def test_one_request_that_is_sent_from_two_sides_at_once_has_one_id(library, begin, identity):
    auth = SealAuth(identity, origin="https://bank.example")
    request = library.Request("POST", "https://bank.example/x", json={}, headers={b"X-A": b"\xe4"})
    before = request.headers.raw
    (redirected, first), (failed, second) = begin(auth, request), begin(auth, request)
    assert first is not second
    assert without_signature(first) == without_signature(second)
    assert (first.content, second.content) == (request.content, request.content)
    with pytest.raises(RemoteProtocolError):
        redirected.end(library.Response(302, headers={"location": "/"}, request=first))
    failed.fail()
    assert request.headers.raw == [*before, (b"X-Request-ID", first.headers["X-Request-ID"].encode())]
    for sent in (request, first):
        assert "trace" not in sent.extensions
        again, third = begin(auth, sent)
        assert without_signature(third) == without_signature(second)
        again.end(library.Response(200, request=third))


AGAIN = {
    "itself": lambda kept, answer: kept,
    "what was sent": lambda kept, answer: answer.request,
    "rebuilt": lambda kept, answer: type(kept)(kept.method, kept.url, headers=kept.headers, content=kept.content),
    "pickled": lambda kept, answer: pickle.loads(pickle.dumps(kept)),
}


@pytest.mark.parametrize("how", AGAIN)
def test_a_request_that_is_sent_again_has_the_same_id_and_body(how, driver, identity, server, require_seal):
    auth, kept = SealAuth(identity, origin=server.url), []

    def build(client: Any) -> None:
        kept.append(client.build_request("POST", server.url, content=b"{}"))

    *_, answer = driver.run(identity, build, lambda client: client.send(kept[0], auth=auth))
    driver.run(identity, lambda client: client.send(AGAIN[how](kept[0], answer), auth=auth))
    assert server.message(0).values("X-Request-ID") == (kept[0].headers["X-Request-ID"],)
    assert repeated(server, 0) == repeated(server, 1)
    for number in (0, 1):
        require_seal(server.message(number))


@pytest.mark.parametrize("name", ["adorsys", "wso2"])
@pytest.mark.parametrize("given", ["Thu, 01 Jan 2026 00:00:01 GMT", None], ids=["given", "added"])
def test_what_was_sent_is_sealed_again_with_the_callers_date_or_a_new_one(given, name, library, begin, dialects):
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    one, other = (
        SealAuth(dialects[name].identity, origin="https://bank.example", now=lambda: clock[0]) for _ in range(2)
    )
    headers = {"Date": given} if given else {}
    request = library.Request("POST", "https://bank.example/x", json={}, headers=headers)
    for auth in (one, other, one):
        flow, request = begin(auth, request)
        flow.end(library.Response(200, request=request))
        covers = "date" in dialects[name].profile.covered
        dates = [given or format_http_date(clock[0])] if given or covers else []
        assert request.headers.get_list("Date") == dates
        assert len(request.headers.get_list("Digest")) == 1
        clock[0] += timedelta(minutes=10)


@pytest.mark.parametrize(
    "other",
    [{"content": b"[]"}, {"method": "PUT"}, {"url": "/elsewhere"}, {"headers": {"X-Request-ID": ID.upper()}}],
    ids=["body", "method", "target", "case of the id"],
)
def test_the_same_id_with_another_request_is_not_sent(other, driver, identity, server):
    auth = SealAuth(identity, origin=server.url)
    first = {"method": "POST", "url": "/", "content": b"{}", "headers": {"X-Request-ID": ID}, "auth": auth}
    with refused(LocalProtocolError, "seal.request-id-reused"):
        driver.run(
            identity,
            lambda client: client.request(**first),
            lambda client: client.request(**first | other),
            base_url=server.url,
        )
    assert len(server.requests) == 1


URLS = (
    "https://other.example/", "http://bank.example/", "https://bank.example:8443/", "https://bank.example.other.example/",
    "https://sub.bank.example/", "https://bank.example@other.example/",
)  # fmt: skip
HOSTS = ("other.example", "bank.example:8443", "bank.example, other.example", "", "a b")


@pytest.mark.parametrize(
    ("url", "headers"), [*((url, {}) for url in URLS), *(("https://bank.example/", {"Host": host}) for host in HOSTS)]
)
def test_a_request_to_another_origin_is_not_sealed(url, headers, driver, identity):
    auth = SealAuth(identity, origin="https://bank.example")
    with pytest.raises(LocalProtocolError) as caught:
        driver.run(identity, lambda client: client.get(url, headers=headers, auth=auth))
    assert caught.value.code == "seal.origin"
    if headers:
        assert caught.value.message == f'the seal is for "https://bank.example", not for "https://{headers["Host"]}"'


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://bank.example", "bank.example"), ("https://BANK.example:443/x", "bank.example"),
        ("https://bank.example/a?b", "bank.example"), ("https://bank.example", "BANK.example"),
        ("https://bank.example", "bank.example:443"),
    ],
)  # fmt: skip
def test_one_origin_may_be_written_in_several_ways(url, host, identity):
    request = HTTP_DRIVERS["httpx sync"].library.Request("GET", url, headers={"Host": host})
    assert "Signature" in next(SealAuth(identity, origin="https://bank.example").sync_auth_flow(request)).headers


@pytest.mark.parametrize(
    ("status", "to", "follow", "way"),
    [
        *((status, "elsewhere", True, "directly") for status in (301, 302, 303, 307, 308)),
        (307, "elsewhere", False, "directly"), (307, "/again", True, "directly"), (307, "/again", False, "directly"),
        (307, "elsewhere", True, "by an open connection"), (307, "elsewhere", True, "by a proxy"),
    ],
)  # fmt: skip
def test_a_seal_never_follows_a_redirect(status, to, follow, way, driver, identity, bank_pki_folder):
    context = server_context(bank_pki_folder)
    with egress_proxy() as (proxy, heads), rogue_bank(context, http(200)) as other:
        answer = http(status, location=other.url if to == "elsewhere" else to)
        options = {"proxy": proxy} if way == "by a proxy" else {}
        steps = [lambda client: client.get(other.url)] if way == "by an open connection" else []
        with rogue_bank(context, answer) as bank:
            post = {"content": b"{}", "auth": SealAuth(identity, origin=bank.url), "follow_redirects": follow}
            with refused(RemoteProtocolError, "answer.redirect"):
                driver.run(identity, *steps, lambda client: client.post(bank.url, **post), **options)
            assert (len(bank.requests), other.connections, len(heads)) == (1, len(steps), len(options))


def test_another_target_than_the_sealed_one_is_not_sent(send, server):
    elsewhere = {"target": b"/psd2/v1/elsewhere"}
    with refused(LocalProtocolError, "client.target"):
        send(lambda client, auth: client.get(server.url, auth=auth, extensions=elsewhere))
    assert server.requests == []


def test_a_signer_is_awaited_where_there_is_an_event_loop(driver, awaited, send, server, require_seal):
    with nullcontext() if driver.is_async else refused(ConfigurationError, "signer.async-only"):
        send(lambda client, auth: client.get(server.url, auth=auth), by=awaited)
        require_seal(server.message())


def test_a_header_that_sealing_writes_is_not_overwritten_also_if_it_was_changed_after_sealing(
    send, driver, identity, server
):
    digest = {"Digest": "SHA-256=x"}
    with refused(LocalProtocolError, "seal.header-present"):
        send(lambda client, auth: client.get(server.url, headers=digest, auth=auth))
    assert server.requests == []
    auth = SealAuth(identity, origin=server.url)
    request = next(auth.sync_auth_flow(driver.library.Request("GET", server.url)))
    request.headers.update(digest)
    with refused(LocalProtocolError, "seal.header-present"):
        next(SealAuth(identity, origin=server.url).sync_auth_flow(request))


@pytest.mark.parametrize(
    "origin", ["http://bank.example", "https://", "bank.example", "https://bank.example/path", "https://a@bank.example"]
)
def test_an_origin_that_is_invalid_is_refused(origin, identity):
    with refused(ConfigurationError, "client.base-url"):
        SealAuth(identity, origin=origin)


def test_an_identity_without_a_seal_does_not_seal(bank_pki):
    with refused(ConfigurationError, "seal.absent"):
        SealAuth(Identity(bank_pki.qwac.certificate, bank_pki.qwac.key), origin="https://bank.example")
