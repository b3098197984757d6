"""The ASGI middleware: a handler sees a request only when every byte of it is proven."""

from __future__ import annotations

import asyncio
import logging
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from asgi import AT, BODY, EVERY_PATH, REQUEST_ID, TARGET, Recorder, call, request, scope_of, sealed
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import CertificateRejected, ConfigurationError, TransportError
from tppkit.protocol.endpoint import Auth
from tppkit.protocol.psd2 import PSD2
from tppkit.seals import PROFILES, KeySigner, Message, Seal, SealPolicy, sign_request
from tppkit.testpki import make_provider
from tppkit.testpki.certificate import for_key, sign_draft
from tppkit.trust import PathVerifier, RevocationChecker, RevocationPolicy, make_anchors
from tppkit.web import AsgiSource, QwacPolicy, SealGate, SealMiddleware, TrustedProxy, caller_of, verified_request
from tppkit.web.proxies import ProxyForm
from tppkit.web.threads import DaemonThreads

Door = Callable[..., SealMiddleware]
POLL = request(method="GET", target="/psd2/v1/payments/sepa-credit-transfers/1/status", body=b"")
NAMELESS = POLL._replace(headers=())


@pytest.fixture
def door(make_gate: Callable[..., SealGate], app: Recorder) -> Door:
    """Makes the middleware before `app`."""
    return lambda *given, **settings: SealMiddleware(app, gate=make_gate(*given, **settings))


def test_a_sealed_request_reaches_its_handler_with_what_was_proven_and_the_servers_own_scope_is_left_alone(
    door, app, good, pki
):
    answer = call(door(), scope_of(good, pki.qwac), [good.body])
    assert (answer.status, answer.body, app.bodies) == (201, b"done", [BODY])
    verified = verified_request(app.scopes[0])
    assert (verified.target, verified.body, verified.request_id) == (TARGET, BODY, REQUEST_ID)
    assert verified.organization_identifier == str(pki.provider.organization_identifier)
    caller = caller_of(app.scopes[0])
    assert (caller.id, caller.roles) == (str(pki.provider.organization_identifier), ("PSP_PI", "PSP_AI"))
    assert caller.peer is not None
    assert (caller.qwac_chain[0], caller.peer.source, caller.repeated) == (pki.qwac.certificate, "asgi-tls", False)
    scope = scope_of(good, pki.qwac)
    before = dict(scope)
    call(door(), scope, [good.body])
    assert scope == before


def test_white_space_that_a_server_leaves_around_a_value_is_not_part_of_it(door, app, good, pki):
    spaced = Message(*good[:2], tuple((name, f" \t{value}\t ") for name, value in good.headers), good.body)
    assert call(door(), scope_of(spaced, pki.qwac), [good.body]).status == 201
    handed = dict(app.scopes[0]["headers"])
    assert handed[b"x-request-id"] == verified_request(app.scopes[0]).request_id.encode() == REQUEST_ID.encode()
    told = call(door(), scope_of(spaced, pki.qwac), [b"other"])
    assert (told.status, told.headers["x-request-id"]) == (401, REQUEST_ID)


@given(cuts=st.lists(st.integers(0, len(BODY)), max_size=6))
def test_a_body_in_any_pieces_is_the_same_body(cuts, pki, seal, paths):
    app, good = Recorder(), sealed(seal)
    gate = SealGate(EVERY_PATH, qwacs=QwacPolicy(paths), seals=SealPolicy(paths), now=lambda: AT)
    edges = [0, *sorted(cuts), len(BODY)]
    pieces = [BODY[a:b] for a, b in pairwise(edges)]
    assert call(SealMiddleware(app, gate=gate), scope_of(good, pki.qwac), pieces).status == 201
    assert app.bodies == [BODY]


def replaced(**parts):
    return lambda message: message._replace(**parts)


def added(name, value):
    return lambda message: message.with_headers((name, value))


def doubled(name):
    return lambda message: message.with_headers((name, message.values(name)[0]))


def without(name):
    return lambda message: message._replace(headers=tuple(one for one in message.headers if one[0] != name))


BODIES = (
    b"",
    BODY[:-1],
    BODY + b"\n",
    BODY.replace(b"\r\n", b"\n"),
    BODY.replace(b"12.50", b"99.99"),
    BODY.replace(b" ", b""),
)
TARGETS = (
    TARGET.partition("?")[0], TARGET + "&y=1", TARGET.replace("%2F", "/"), TARGET.replace("%2F", "%2f"), "/api" + TARGET,
)  # fmt: skip
SEALING = ("Digest", "Signature", "TPP-Signature-Certificate")
# What happens to a sealed request, the answer, and how often its body is asked for.
WRONG = [
    *((replaced(body=body), 401, "SIGNATURE_INVALID", 1) for body in BODIES),
    *((replaced(target=target), 401, "SIGNATURE_INVALID", 0) for target in TARGETS),
    (replaced(method="PUT"), 401, "SIGNATURE_INVALID", 0),
    *((without(name), 401, "SIGNATURE_MISSING", 0) for name in SEALING),
    *((doubled(name), 400, "FORMAT_ERROR", 0) for name in (*SEALING, "X-Request-ID")),
    *((lambda one, value=value: added("X-Request-ID", value)(without("X-Request-ID")(one)), 400, "FORMAT_ERROR", 0) for value in ("1", "")),
    (added("Content-Encoding", "gzip"), 400, "FORMAT_ERROR", 0),
    *((added("Content-Length", text), 400, "FORMAT_ERROR", 0) for text in ("-1", "+5", "1e3", "0x10", "", "²")),
    (added("Content-Length", "9" * 5000), 413, "FORMAT_ERROR", 0),
    *((added("Content-Length", str(len(BODY) + more)), 400, "FORMAT_ERROR", 1) for more in (-1, 1)),
    *((added("Transfer-Encoding", coding), 400, "FORMAT_ERROR", 0) for coding in ("gzip, chunked", "identity", "xchunked", "")),
]  # fmt: skip


@pytest.mark.parametrize(("change", "status", "code", "reads"), WRONG)
def test_a_request_that_is_not_as_it_was_sealed_is_refused_and_of_two_ids_none_is_echoed(
    change, status, code, reads, door, app, good, pki
):
    sent = change(good)
    answer = call(door(), scope_of(sent, pki.qwac), [sent.body])
    assert (answer.status, answer.code, answer.reads, app.scopes) == (status, code, reads, [])
    echoed = {"x-request-id": REQUEST_ID} if sent.values("X-Request-ID") == (REQUEST_ID,) else {}
    fixed = {"content-type": "application/json", "cache-control": "no-store"}
    assert {name: answer.headers.get(name) for name in (*fixed, *echoed)} == fixed | echoed
    assert ("x-request-id" in answer.headers) == bool(echoed)


@pytest.mark.parametrize("raw_path", [None, b""])
def test_a_server_that_decodes_the_path_gets_every_request_rejected(raw_path, door, app, good, pki):
    scope = scope_of(good, pki.qwac, raw_path=raw_path, path=good.target.partition("?")[0])
    answer = call(door(), scope, [good.body])
    assert (answer.status, answer.code, app.scopes) == (400, "FORMAT_ERROR", [])
    assert "message.no-raw-path" in answer.text


TWICE = [(("X-Request-ID", REQUEST_ID),) * 2]
TWICE += [
    (("X-Request-ID", REQUEST_ID), *(pair,) * 2) for pair in (("Content-Length", "0"), ("Transfer-Encoding", "chunked"))
]


@pytest.mark.parametrize(
    ("headers", "code"), [*((one, "header.duplicate") for one in TWICE), ((), "request-id.missing")]
)
def test_an_unsealed_request_with_two_of_such_headers_or_without_an_id_is_refused(headers, code, door, app, pki):
    answer = call(door(PSD2), scope_of(POLL._replace(headers=headers), pki.qwac), [b""])
    assert (answer.status, answer.code, code in answer.text, app.scopes) == (400, "FORMAT_ERROR", True, [])


@pytest.mark.parametrize(
    ("limit", "announced", "pieces", "status", "reads"),
    [(600, False, (400, 400, 200), 413, 2), (999, True, (1000,), 413, 0), (1000, True, (1000,), 201, 1)],
)
def test_a_body_is_read_no_further_than_its_limit_which_is_not_below_nothing(
    limit, announced, pieces, status, reads, door, app, seal, pki
):
    large = sealed(seal, body=b"x" * 1000)
    sent = large.with_headers(("Content-Length", "1000")) if announced else large
    answer = call(door(max_body_bytes=limit), scope_of(sent, pki.qwac), [b"x" * size for size in pieces])
    assert (answer.status, answer.reads, len(app.scopes)) == (status, reads, int(status == 201))
    gate = door(PSD2, max_body_bytes=10)  # and so is one that is not sealed
    assert call(gate, scope_of(POLL, pki.qwac), [b"x" * 6, b"x" * 6]).status == 413
    assert call(gate, scope_of(POLL, pki.qwac), [b"x" * 5, b"x" * 5]).status == 201
    assert app.bodies[-1] == b"x" * 10
    with refused(ConfigurationError, "web.setting"):
        door(max_body_bytes=-1)


@pytest.mark.parametrize(("name", "kind"), [("qwacs", "QwacPolicy"), ("seals", "SealPolicy")])
def test_a_gate_names_the_policy_that_it_needs_if_it_is_given_something_else(make_gate, paths, name, kind):
    with refused(ConfigurationError, "web.setting", match=f"{name} is a PathVerifier: give {kind}"):
        make_gate(**{name: paths})


def test_empty_pieces_of_a_body_are_not_held(make_gate, good, pki):
    _, pending = make_gate().enter(AsgiSource(scope_of(good, pki.qwac)))
    tracemalloc.start()
    for _ in range(200_000):
        pending.update(b"")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pending.update(BODY)
    assert (pending.finish()[1], held < 100_000) == (BODY, True)


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("berlin-group", "psu_id"), ("berlin-group", "Psu-Corporate_ID"), ("berlin-group", "x_request_id"),
        ("berlin-group", "Content_Type"), ("berlin-group", "content_encoding"), ("berlin-group", "x_own"), ("wso2", "psu_other"),
    ],
)  # fmt: skip
def test_a_header_that_a_wsgi_application_reads_as_another_is_refused(dialect, name, door, app, paths, pki):
    profile = PROFILES[dialect]
    berlin = Seal.for_key(pki.qseal.certificate, pki.qseal.key, profile=profile)
    dated = request().with_headers(("Date", "Mon, 01 Jun 2026 12:00:00 GMT"), ("X-Own", "1"))
    made = door(seals=SealPolicy(paths, profile=profile))
    sent = sign_request(dated, seal=berlin).with_headers(("Other_Name", "1"))
    assert call(made, scope_of(sent, pki.qwac), [BODY]).status == 201
    answer = call(made, scope_of(sent.with_headers((name, "1")), pki.qwac), [BODY])
    assert (answer.status, answer.code, len(app.scopes)) == (400, "FORMAT_ERROR", 1)
    assert "header.underscore" in answer.text


@pytest.mark.parametrize(("seconds", "status"), [(60, 201), (61, 408)])
def test_a_sealed_body_arrives_within_a_minute_of_its_head(seconds, status, door, good, pki):
    times = iter([AT, AT + timedelta(seconds=seconds)])
    answer = call(door(now=lambda: next(times)), scope_of(good, pki.qwac), [BODY])
    assert (answer.status, b"transport.timeout" in answer.body) == (status, status == 408)


@pytest.mark.parametrize("before", [0, 1])
def test_a_client_that_stops_sending_gets_no_handler(before, door, app, good, pki):
    answer = call(door(), scope_of(good, pki.qwac), [*[BODY[:5]] * before, None])
    assert (answer.status, answer.code, app.scopes) == (400, "FORMAT_ERROR", [])
    assert "transport.disconnected" in answer.text


@pytest.mark.parametrize("chunk", [b"other", None])
def test_a_connection_that_closed_before_its_answer_is_not_a_failure(chunk, door, good, pki):
    async def receive() -> Any:
        return {"type": "http.disconnect"} if chunk is None else {"type": "http.request", "body": chunk}

    async def send(event: Any) -> None:
        raise OSError("gone")

    asyncio.run(door()(scope_of(good, pki.qwac), receive, send))


def test_an_unknown_caller_and_one_with_the_seal_of_another_organisation_are_refused(door, app, good, pki, other_qseal):
    answer = call(door(PSD2), scope_of(good._replace(target="/nowhere"), None), [good.body])
    assert (answer.status, answer.code, answer.reads, app.scopes) == (401, "CERTIFICATE_MISSING", 0, [])
    other = pki.issue_qwac(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other-qwac")
    answer = call(door(), scope_of(good, other), [good.body])
    assert (answer.status, answer.code, app.scopes) == (401, "SIGNATURE_INVALID", [])


def test_the_table_says_which_requests_must_be_sealed_and_for_which_role(door, app, pki):
    reader = pki.issue_qwac(make_provider(roles=("PSP_AI",)), label="ai-qwac")
    gate = door(PSD2)
    assert call(gate, scope_of(POLL, pki.qwac), [b""]).status == 201
    assert caller_of(app.scopes[0]).seal is None
    with refused(ConfigurationError, "web.unverified"):
        verified_request(app.scopes[0])
    initiation = request(target="/psd2/v1/payments/sepa-credit-transfers")
    assert call(gate, scope_of(initiation, pki.qwac), [BODY]).code == "SIGNATURE_MISSING"
    # The role is judged before the id and the seal are looked at.
    for message in (POLL, initiation, NAMELESS):
        assert call(gate, scope_of(message, reader), [b""]).code == "ROLE_INVALID"
    assert len(app.scopes) == 1


def test_without_a_row_only_the_caller_is_judged_and_its_certificate_keeps_its_code(make_gate, pki):
    gate = make_gate(PSD2)
    pending = gate.open(AsgiSource(scope_of(NAMELESS, pki.qwac)), None)
    assert (pending.caller.id, pending.caller.seal) == (str(pki.provider.organization_identifier), None)
    with pytest.raises(CertificateRejected):
        gate.open(AsgiSource(scope_of(NAMELESS, None)), None)
    gate = make_gate(PSD2, now=lambda: pki.qwac.certificate.not_after + timedelta(days=1))
    with refused(CertificateRejected, "certificate.expired"):
        gate.open(AsgiSource(scope_of(POLL, pki.qwac)), None)


@pytest.mark.parametrize("auth", [Auth.NONE, Auth.API_KEY, Auth.BASIC])
def test_an_endpoint_that_this_gate_cannot_judge_is_closed(auth, door, app, pki):
    open_rows = replace(PSD2, endpoints=tuple(replace(row, auth=auth) for row in PSD2.endpoints))
    assert call(door(open_rows), scope_of(POLL, pki.qwac), [b""]).status == 500
    assert app.scopes == []


def test_a_wrong_method_is_answered_with_the_right_ones(door, pki):
    patch = request(method="PATCH", target="/psd2/v1/payments/sepa-credit-transfers")
    answer = call(door(PSD2), scope_of(patch, pki.qwac), [BODY])
    assert (answer.status, answer.code, answer.headers["allow"]) == (405, "SERVICE_INVALID", "POST")


def test_only_the_middleware_can_declare_a_request_verified(pki, good):
    for forged in (None, True, {"verified": True}):
        with pytest.raises(ConfigurationError):
            verified_request(scope_of(good, pki.qwac) | {"tppkit.caller": forged})


def test_a_body_framed_twice_is_refused(door, app, good, pki):
    framed = good.with_headers(("Transfer-Encoding", "Chunked"))
    assert call(door(), scope_of(framed, pki.qwac), [BODY]).status == 201
    twice = framed.with_headers(("Content-Length", str(len(BODY))))
    assert call(door(), scope_of(twice, pki.qwac), [BODY]).status == 400
    assert len(app.scopes) == 1


@pytest.mark.parametrize(
    "key",
    [rsa.generate_private_key(65537, 1024), ec.generate_private_key(ec.SECP256K1())],
    ids=["weak", "unsupported"],
)
def test_a_key_of_an_untrusted_qwac_is_reported_as_a_fault_of_the_certificate(key, door, app, good, pki):
    drafted = pki.draft("qwac", pki.provider, label="weak")
    weak = sign_draft(drafted._replace(draft=for_key(drafted.draft, key.public_key())), pki.qwac_ca, "weak", "qwac")
    answer = call(door(), scope_of(good, weak), [BODY])
    assert (answer.status, answer.code, app.scopes) == (401, "CERTIFICATE_INVALID", [])


def test_a_lifespan_passes_and_a_websocket_or_another_type_does_not(make_gate, door, app):
    seen, sent = [], []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def send(event: Any) -> None:
        sent.append(event)

    gate = SealMiddleware(inner, gate=make_gate())
    for kind in ("lifespan", "websocket"):
        asyncio.run(gate({"type": kind}, asyncio.Event().wait, send))
    assert (seen, sent) == (["lifespan"], [{"type": "websocket.close", "code": 1008}])
    with refused(ConfigurationError, "web.scope"):
        asyncio.run(gate({"type": "http2.push"}, asyncio.Event().wait, send))
    assert seen == ["lifespan"]


def test_the_peer_gets_less_than_the_log(door, good, pki, caplog):
    bad = good._replace(target=TARGET + "&marker")
    with caplog.at_level(logging.WARNING, "tppkit.web"):
        answer = call(door(), scope_of(bad, pki.qwac), [good.body])
    assert answer.text == "The signature does not match the request and the seal's key (signature.invalid)"
    (record,) = caplog.records
    assert "&marker from 198.51.100.7" in record.getMessage()


def test_a_failure_of_ours_is_logged_with_its_traceback_and_sent_without_details(door, app, policy, good, pki, caplog):
    class Broken(QwacPolicy):
        def verify(self, peer: Any, *, at: Any) -> Any:
            raise RuntimeError("swordfish")

    answer = call(door(qwacs=Broken(policy.paths)), scope_of(good, pki.qwac), [good.body])
    assert (answer.status, answer.code, app.scopes) == (500, "INTERNAL_SERVER_ERROR", [])
    assert b"swordfish" not in answer.body
    (record,) = caplog.records
    assert (record.levelno, record.name, "swordfish" in caplog.text) == (logging.ERROR, "tppkit.web", True)
    assert "Traceback" in caplog.text


def test_which_part_of_ours_is_unavailable_is_not_sent(make_gate, good):
    error = TransportError("database.unavailable", "swordfish")
    answer = make_gate(PSD2).refuse(AsgiSource(scope_of(good, None)), error)
    assert (answer.status, b"cannot be handled now" in answer.body, b"database" in answer.body) == (503, True, False)


def test_a_spoofed_certificate_header_is_ignored_and_logged(door, app, good, pki, caplog):
    proxy = TrustedProxy("10.0.0.0/8", form=ProxyForm.RFC9440)
    spoofed = good.with_headers(("Client-Cert", ":AAAA:"))
    gate = door(trusted_proxies=[proxy])
    with caplog.at_level(logging.WARNING, "tppkit.web"):
        assert call(gate, scope_of(spoofed, pki.qwac), [good.body]).status == 201
    assert "ignored from 198.51.100.7: client-cert" in caplog.text
    assert caller_of(app.scopes[0]).peer.ignored == ("client-cert",)
    answer = call(gate, scope_of(spoofed, None), [good.body])
    assert (answer.status, answer.code) == (401, "CERTIFICATE_MISSING")


OVER_BODY = replace(PROFILES["ukob"], name="webhook", private=(), algorithms=(("ES256", "ecdsa-p256-sha256"),))


@pytest.mark.parametrize("profile", [PROFILES["psd2-v1"], OVER_BODY], ids=["head", "body"])
def test_answers_about_revocation_are_fetched_beside_the_event_loop(app, pki, profile):
    went_on, waited = threading.Event(), list[bool]()

    def fetch(url: str, **_: Any) -> bytes:
        waited.append(went_on.wait(10) and threading.current_thread() is not threading.main_thread())
        raise TransportError("fetch.timeout", "no answer in time")

    async def beside(*given: Any) -> None:
        asyncio.get_running_loop().call_soon(went_on.set)  # runs as soon as the middleware waits
        await SealMiddleware(app, gate=gate)(*given)

    checker = RevocationChecker(fetch=fetch, policy=RevocationPolicy.SOFT_FAIL)
    paths = PathVerifier(make_anchors(pki.authorities), revocation=checker)
    seals = SealPolicy(paths, profile=profile, certificates={"k": pki.qseal.certificate})
    gate = SealGate(EVERY_PATH, qwacs=QwacPolicy(paths), seals=seals, now=lambda: AT)
    seal = Seal.for_key(pki.qseal.certificate, pki.qseal.key, profile=profile, key_id="k")
    good = sign_request(request(), seal=seal, at=AT)
    assert call(beside, scope_of(good, pki.qwac), [good.body]).status == 201
    assert waited == [True] * 3


def test_a_caller_whose_answers_are_slow_delays_no_other(app, good, seal, pki):
    go_on, hangs = threading.Event(), threading.Event()

    def fetch(url: str, **_: Any) -> bytes:
        if hangs.is_set():
            go_on.wait(30)
        raise TransportError("fetch.failed", "no answer")

    checker = RevocationChecker(fetch=fetch, policy=RevocationPolicy.SOFT_FAIL)
    paths = PathVerifier(make_anchors(pki.authorities), revocation=checker)
    gate = SealGate(EVERY_PATH, qwacs=QwacPolicy(paths), seals=SealPolicy(paths), now=lambda: AT)
    door = SealMiddleware(app, gate=gate)
    door._threads = DaemonThreads(1)
    others = sealed(Seal(pki.other_qseal.certificate, KeySigner(pki.other_qseal.key)))

    async def status(message: Message, qwac: Any) -> int:
        sent = list[Any]()

        async def send(event: Any) -> None:
            sent.append(event)

        async def receive() -> Any:
            return {"type": "http.request", "body": BODY, "more_body": False}

        await door(scope_of(message, qwac), receive, send)
        return sent[0]["status"]

    async def meet() -> list[int]:
        known = [await status(good, pki.qwac)]
        hangs.set()
        slow = asyncio.create_task(status(others, pki.other_qwac))
        await asyncio.sleep(0.05)
        known += [await status(good, pki.qwac), await status(others, pki.other_qwac)]
        go_on.set()
        return [*known, await slow]

    assert asyncio.run(meet()) == [201, 201, 503, 201]


@pytest.mark.parametrize("kind", [StopIteration, asyncio.CancelledError])
def test_what_a_future_cannot_pass_on_is_an_error_of_the_call(kind):
    def fail() -> None:
        raise kind

    with pytest.raises(RuntimeError, match=kind.__name__):
        asyncio.run(DaemonThreads(1).run(fail))
