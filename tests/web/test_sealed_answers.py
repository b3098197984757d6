"""Gates that seal the answers of their application: under ASGI and WSGI, refusals and repetitions too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import asgi
import pytest
import wsgi
from asgi import AT, BODY, TARGET, request, scope_of, sealed
from serving import run_uvicorn, send

from refusals import refused
from tppkit._encoding import encode_base64
from tppkit.client import AsyncPsd2Client, Identity, Psd2Client
from tppkit.errors import ConfigurationError, RequestRefused, SignatureRejected, TppkitError, TransportError
from tppkit.httpsig import CallableSigner, KeySigner
from tppkit.protocol.psd2 import PSD2, PaymentInitiation
from tppkit.seals import ANSWER_PROFILES, Answer, Message, Seal, SealPolicy, VerifiedAnswer, verify_answer
from tppkit.testpki import Pki, certificate_pem
from tppkit.trust import PathVerifier
from tppkit.web import QwacPolicy, ReplayGuard, SealGate, SealMiddleware, WsgiSealMiddleware
from tppkit.web.answers import MAX_SEALED_BYTES
from tppkit.web.replay_stores.memory import MemoryReplayStore

PAYMENT = PaymentInitiation.from_wire(
    b'{"instructedAmount":{"currency":"EUR","amount":"12.50"},"creditorAccount":{"iban":"DE89370400440532013000"},'
    b'"creditorName":"A"}'
)
NAMES, NAMED = ("rfc9421", "cavage"), "ecdsa-p256-sha256"
Ask = Callable[..., Answer]


class App:
    """One application for both: answers with a status and a body, in pieces."""

    def __init__(self, status: int = 201, pieces: tuple[bytes, ...] = (b"do", b"ne")) -> None:
        self.status, self.pieces, self.calls = status, pieces, 0
        self.headers = [("content-type", "text/plain")]

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        await receive()
        headers = [(name.encode(), value.encode()) for name, value in self.headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def wsgi(self, environ: Any, start_response: Any) -> Any:
        self.calls += 1
        start_response(f"{self.status} Fine", self.headers)
        return iter(self.pieces)


@pytest.fixture
def bank_seal(pki: Pki) -> Callable[..., Seal]:
    def made(name: str = "rfc9421", **options: Any) -> Seal:
        assert pki.bank_seal is not None
        return Seal.for_key(pki.bank_seal.certificate, pki.bank_seal.key, profile=ANSWER_PROFILES[name], **options)

    return made


@pytest.fixture(params=["asgi", "wsgi"])
def ask(request: pytest.FixtureRequest, make_gate: Callable[..., SealGate], pki: Pki) -> Ask:
    """Returns the answer of an application behind a gate, under either protocol."""

    def asked(
        app: App, message: Message, *, body: bytes | None = None, gate: SealGate | None = None, **settings: Any
    ) -> Answer:
        gate, body = gate or make_gate(**settings), message.body if body is None else body
        if request.param == "asgi":
            told = asgi.call(SealMiddleware(app.asgi, gate=gate), scope_of(message, pki.qwac), [body])
            return Answer(told.status, tuple(told.headers.items()), told.body)
        sent = wsgi.forwarded(message, pki)
        environ = wsgi.environ_of(sent._replace(body=body))
        return Answer(*_ordered(wsgi.call(WsgiSealMiddleware(app.wsgi, gate=gate), environ)))

    return asked


def _ordered(told: tuple[int, dict[str, str], bytes]) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    status, headers, body = told
    return status, tuple(headers.items()), body


@pytest.fixture
def verify(paths: PathVerifier) -> Callable[..., VerifiedAnswer]:
    def verified(answer: Answer, message: Message, name: str = "rfc9421") -> VerifiedAnswer:
        return verify_answer(answer, request=message, policy=SealPolicy(paths, profile=ANSWER_PROFILES[name]), at=AT)

    return verified


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_sealed_for_its_request(name, ask, verify, good, bank_seal):
    answer = ask(App(), good, answers=bank_seal(name))
    assert (answer.status, answer.body) == (201, b"done")
    assert verify(answer, good, name).body == b"done"


@pytest.mark.parametrize("name", NAMES)
def test_refusals_are_sealed_too(name, ask, verify, good, seal, bank_seal):
    app = App()
    for message, body, status in (
        (good, b"changed", 401), (request(), None, 401), (good.with_headers(("Script-Name", "/x")), None, 400),
        (sealed(seal, body=b"x" * 70_000), None, 413),
    ):  # fmt: skip
        answer = ask(app, message, body=body, answers=bank_seal(name))
        assert answer.status == status
        verify(answer, message, name)
    assert app.calls == 0


def test_the_refusal_of_a_request_that_no_seal_can_name_is_not_sealed(ask, good, bank_seal, caplog):
    message = good._replace(method="post")
    for name in NAMES:
        answer = ask(App(), message._replace(headers=good.headers[1:]), answers=bank_seal(name))
        assert (answer.status, answer.values("signature")) == (400, ())
    assert "was sent without a seal" in caplog.text


def test_a_repeated_answer_is_sealed_for_the_request_that_repeats(ask, verify, seal, bank_seal, make_gate):
    gate = make_gate(answers=bank_seal(), replay=ReplayGuard(MemoryReplayStore()))
    app, first, second = App(), sealed(seal), sealed(seal)
    answers = [ask(app, message, gate=gate) for message in (first, second)]
    assert app.calls == 1
    for answer, message in zip(answers, (first, second), strict=True):
        assert verify(answer, message).body == b"done"
    with refused(SignatureRejected, "signature.invalid"):
        verify(answers[0], second)


@pytest.mark.parametrize("replay", [False, True])
def test_an_answer_that_is_too_long_is_never_sent_without_a_seal(replay, ask, good, bank_seal, verify, caplog):
    settings = {"replay": ReplayGuard(MemoryReplayStore())} if replay else {}
    half = b"x" * (MAX_SEALED_BYTES // 2)
    answer = ask(App(200, (half, half)), good, answers=bank_seal(), **settings)
    assert len(verify(answer, good).body) == MAX_SEALED_BYTES
    settings = {"replay": ReplayGuard(MemoryReplayStore())} if replay else {}
    answer = ask(App(200, (half, half, b"y", half)), good, answers=bank_seal(), **settings)
    assert (answer.status, answer.values("signature"), len(answer.body) < 1000) == (500, (), True)
    assert "answer.too-large" in caplog.text


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("DELETE", 204)])
def test_answers_without_content_are_sealed(method, status, ask, verify, seal, bank_seal):
    message = sealed(seal, method=method, body=b"")
    answer = ask(App(status, ()), message, answers=bank_seal())
    assert (answer.status, verify(answer, message).body) == (status, b"")


def test_a_signer_that_fails_gives_a_plain_500(ask, good, pki, caplog):
    failing = False

    def sign(data: bytes) -> bytes:
        if failing:
            raise TransportError("signer.unavailable", "the device is gone")
        return KeySigner(pki.bank_seal.key, algorithm=NAMED).sign(data)

    async def sign_async(data: bytes) -> bytes:
        return sign(data)

    signer = CallableSigner(pki.bank_seal.certificate.public_key, algorithm=NAMED, sign=sign, sign_async=sign_async)
    answers = Seal(pki.bank_seal.certificate, signer, profile=ANSWER_PROFILES["rfc9421"])
    failing = True
    app, counted = App(), list[tuple[str, str]]()
    answer = ask(app, good, answers=answers, count=lambda outcome, code, _: counted.append((outcome, code)))
    assert (app.calls, answer.status, answer.values("signature")) == (1, 500, ())
    assert counted == [("admitted", ""), ("unsealed", "signer.unavailable")]
    (record,) = [one for one in caplog.records if getattr(one, "code", "") == "signer.unavailable"]
    assert (vars(record)["request_id"], vars(record)["organisation"]) == (asgi.REQUEST_ID, "PSDLT-BL-LB000000")
    assert (b"device" in answer.body, "the device is gone" in caplog.text) == (False, True)
    assert json.loads(answer.body)["tppMessages"][0]["code"] == "INTERNAL_SERVER_ERROR"


def test_an_application_that_writes_a_header_of_the_seal_gets_500(ask, good, bank_seal, caplog):
    app = App()
    app.headers = [("content-digest", "x")]
    assert ask(app, good, answers=bank_seal()).status == 500
    assert "seal.header-present" in caplog.text


def test_a_profile_for_requests_is_refused(make_gate, seal):
    with refused(ConfigurationError, "seal.for-answers"):
        make_gate(answers=seal)


def test_the_event_loop_runs_while_a_signer_signs(good, pki, make_gate, verify):
    inside = 0

    async def sign(data: bytes) -> bytes:
        nonlocal inside
        inside += 1
        while inside < 2:  # until the other request is here too
            await asyncio.sleep(0)
        return KeySigner(pki.bank_seal.key, algorithm=NAMED).sign(data)

    async def main() -> list[Any]:
        nonlocal inside
        inside = 2
        signer = CallableSigner(pki.bank_seal.certificate.public_key, algorithm=NAMED, sign_async=sign)
        answers = await Seal.make_async(pki.bank_seal.certificate, signer, profile=ANSWER_PROFILES["rfc9421"])
        inside, app = 0, SealMiddleware(App().asgi, gate=make_gate(answers=answers))
        return await asyncio.gather(*(one(app) for _ in range(2)))

    async def one(app: Any) -> Answer:
        events: list[Any] = []
        body = [{"type": "http.request", "body": BODY, "more_body": False}]

        async def receive() -> Any:
            return body.pop()

        async def sent(event: Any) -> None:
            events.append(event)

        await app(scope_of(good, pki.qwac), receive, sent)
        return Answer.from_wire(events[0]["status"], events[0]["headers"], events[1]["body"])

    for answer in asyncio.run(asyncio.wait_for(main(), 20)):
        assert verify(answer, good).body == b"done"


@pytest.mark.parametrize("name", NAMES)
def test_a_server_on_a_socket_sends_sealed_answers(name, good, pki, make_gate, bank_seal, verify):
    """uvicorn, which adds a Date of its own unless it is told not to."""
    app = SealMiddleware(App().asgi, gate=make_gate(answers=bank_seal(name)))
    message = good.with_headers(("Client-Cert", f":{encode_base64(pki.qwac.certificate.der)}:"))
    with run_uvicorn(app, date_header=False) as port:
        for one in (message, message._replace(target=TARGET + "&y=1")):
            response = send(f"http://127.0.0.1:{port}", one)
            answer = Answer.from_wire(response.status_code, response.headers.raw, response.content)
            verified = verify(answer, Message.from_httpx(response.request), name)
            assert verified.unverified_answer.status == (201 if one is message else 401)


LINKS = {name: {"href": "https://bank.example/x"} for name in ("scaRedirect", "self", "status")}


class Bank:
    """A bank's application under ASGI: initiates payments and knows their status."""

    def __init__(self) -> None:
        self.payments = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        body: dict[str, Any] = {"transactionStatus": "RCVD"}
        status = 200
        if scope["method"] == "POST":
            self.payments += 1
            status, body = 201, body | {"paymentId": f"p{self.payments}", "_links": LINKS}
        headers = [
            (b"content-type", b"application/json"),
            *(one for one in scope["headers"] if one[0] == b"x-request-id"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


@pytest.mark.parametrize("client", [Psd2Client, AsyncPsd2Client])
@pytest.mark.parametrize("name", NAMES)
def test_a_client_and_a_gate_understand_each_other(name, client, bank_pki, bank_pki_folder, live_paths, live_seal):
    bank, kept = Bank(), list[VerifiedAnswer]()
    assert bank_pki.bank_seal is not None
    own = Seal.for_key(bank_pki.bank_seal.certificate, bank_pki.bank_seal.key, profile=ANSWER_PROFILES[name])
    replay = ReplayGuard(MemoryReplayStore())
    gate = SealGate(PSD2, qwacs=QwacPolicy(live_paths), seals=SealPolicy(live_paths), replay=replay, answers=own)
    sealing = SealMiddleware(bank, gate=gate)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        chain = (certificate_pem(bank_pki.qwac.certificate).decode(),)
        tls = {"client_cert_chain": chain, "client_cert_error": None}
        await sealing({**scope, "extensions": {"tls": tls}}, receive, send)

    identity = Identity(
        bank_pki.qwac.certificate, bank_pki.qwac.key, chain=bank_pki.qwac.chain, seal=live_seal,
        server_anchors=[bank_pki.root.certificate],
    )  # fmt: skip
    files = {"ssl_certfile": bank_pki_folder / "server-chain.pem", "ssl_keyfile": bank_pki_folder / "server.key"}
    options = {"answers": "required", "answer_anchors": live_paths, "keep_answer": kept.append}
    with run_uvicorn(app, date_header=False, **files) as port:
        made: Any = client(f"https://localhost:{port}", identity=identity, **options)
        again = uuid4()
        steps = [
            lambda one: one.initiate_payment(PAYMENT, request_id=again),
            lambda one: one.initiate_payment(PAYMENT, request_id=again),
            lambda one: one.payment_status("p1"),
        ]
        first, second, third = _run(made, *steps)
        assert (first.payment_id, second.payment_id, third.transaction_status) == ("p1", "p1", "RCVD")
        assert bank.payments == 1
        other = PAYMENT.model_copy(update={"creditor_name": "Other"})
        made = client(f"https://localhost:{port}", identity=identity, **options)
        (error,) = _run(made, lambda one: one.initiate_payment(other, request_id=again))
        assert isinstance(error, RequestRefused)
        assert (error.status, error.peer_code) == (409, "REQUEST_ID_REUSE")
    assert [one.unverified_answer.status for one in kept] == [201, 201, 200, 409]
    assert [one.request.values("x-request-id") == (str(again),) for one in kept] == [True, True, False, True]


def _run(client: Any, *steps: Callable[[Any], Any]) -> list[Any]:
    async def main() -> list[Any]:
        async with client:
            return [await _error_or(step(client)) for step in steps]

    if hasattr(client, "__aenter__"):
        return asyncio.run(main())
    with client:
        results = []
        for step in steps:
            try:
                results.append(step(client))
            except TppkitError as e:
                results.append(e)
        return results


async def _error_or(result: Any) -> Any:
    try:
        return await result
    except TppkitError as e:
        return e
