"""Answers with the seal of the bank: what a client accepts by its policy, and what it hands over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from payments import INITIATED, PAYMENT
from rogue_bank import Answer as Reply
from rogue_bank import as_json

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import Psd2Client
from tppkit.errors import ConfigurationError, OutcomeUnknown, RequestRefused
from tppkit.message import Answer
from tppkit.seals import ANSWER_PROFILES, Message, Seal, VerifiedAnswer, sign_answer
from tppkit.testpki import Issued, Pki, make_pki
from tppkit.trust import PathVerifier, make_anchors

STATUS = {"transactionStatus": "RCVD"}
NAMES = ("rfc9421", "cavage")
Change = Callable[[Answer], Answer]


def status(client: Any) -> Any:
    return client.payment_status("any")


def pay(client: Any) -> Any:
    return client.initiate_payment(PAYMENT)


@pytest.fixture
def sealed(bank_pki: Pki) -> Callable[..., Reply]:
    """Seals what a bank answers, for the request as it arrives, and then changes it."""

    def made(reply: Reply, name: str = "rfc9421", *, change: Change = lambda answer: answer, by: Issued | None = None,
             late: timedelta = timedelta(0)) -> Reply:  # fmt: skip
        issued = by or bank_pki.bank_seal
        assert issued is not None
        seal = Seal.for_key(issued.certificate, issued.key, profile=ANSWER_PROFILES[name])

        def answered(raw: bytes) -> bytes:
            request, answer = _parsed(raw), _parsed_answer(reply(raw))
            answer = change(sign_answer(answer, request=request, seal=seal, at=utc_now() - late))
            lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
            return f"HTTP/1.1 {answer.status} X\r\n{lines}\r\n".encode("latin-1") + answer.body

        return answered

    return made


def _split(raw: bytes) -> tuple[str, list[tuple[bytes, bytes]], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    start, *lines = head.split(b"\r\n")
    return start.decode(), [(name, value) for name, _, value in (line.partition(b": ") for line in lines)], body


def _parsed(raw: bytes) -> Message:
    start, headers, body = _split(raw)
    method, target, _ = start.split(" ")
    return Message.from_wire(method, target.encode(), headers, body)


def _parsed_answer(raw: bytes) -> Answer:
    start, headers, body = _split(raw)
    return Answer.from_wire(int(start.split(" ")[1]), headers, body)


@pytest.fixture
def policy(bank_pki: Pki) -> dict[str, Any]:
    return {"answers": "required", "answer_anchors": make_anchors(bank_pki.authorities)}


@pytest.mark.parametrize("name", NAMES)
def test_a_sealed_answer_is_verified_and_handed_over(name, ask, sealed, policy, driver):
    kept: list[VerifiedAnswer] = []
    results: list[Any] = []

    def keep(verified: VerifiedAnswer) -> Any:
        kept.append(verified)
        return _later() if driver.is_async else None

    async def _later() -> None:
        pass

    *results, bank = ask(sealed(as_json(200, STATUS), name), status, status, keep_answer=keep, **policy)
    assert [one.transaction_status for one in results] == ["RCVD", "RCVD"]
    assert [one.organization_identifier for one in kept] == ["PSDLT-BL-LB900000"] * 2
    assert kept[0].body == b'{"transactionStatus": "RCVD"}'
    assert kept[0].request.values("x-request-id") == bank.message(0).values("x-request-id")


@pytest.mark.parametrize("name", NAMES)
def test_a_sealed_refusal_is_a_refusal(name, ask, sealed, policy):
    error_body = {"tppMessages": [{"category": "ERROR", "code": "PRODUCT_INVALID", "text": "no"}]}
    error, _ = ask(sealed(as_json(404, error_body), name), pay, **policy)
    assert isinstance(error, RequestRefused)
    assert (error.status, error.peer_code) == (404, "PRODUCT_INVALID")


SECRET = "DE00SECRET"
CHANGES: tuple[tuple[str, str, Change], ...] = (
    ("status", "rfc9421", lambda a: a._replace(status=200)),
    ("body", "rfc9421", lambda a: a._replace(body=a.body.replace(b"RCVD", b"ACSC"))),
    ("body", "cavage", lambda a: a._replace(body=a.body.replace(b"RCVD", b"ACSC"))),
    ("twice", "rfc9421", lambda a: a.with_headers(("ASPSP-Signature-Certificate", "x"))),
    ("downgrade", "rfc9421", lambda a: a._replace(headers=tuple(h for h in a.headers if h[0] != "Signature-Input"))),
)  # fmt: skip


@pytest.mark.parametrize(("name", "change"), [row[1:] for row in CHANGES], ids=[" ".join(row[:2]) for row in CHANGES])
@pytest.mark.parametrize("answers", ["required", "if-present"])
def test_a_changed_answer_is_never_used(name, change, answers, ask, sealed, policy):
    body = INITIATED | {"psuMessage": SECRET}
    error, bank = ask(sealed(as_json(201, body), name, change=change), pay, **policy | {"answers": answers})
    assert isinstance(error, OutcomeUnknown)
    assert (error.code, error.status is not None, len(bank.requests)) == ("answer.seal", True, 1)
    assert UUID(error.request_id)
    assert error.request_id in error.message
    assert SECRET not in str(error) + str(error.__cause__)
    assert not error.__cause__ or error.__cause__.__traceback__ is None  # its frames have the body


def test_seals_of_others_and_of_other_times_are_refused(ask, sealed, policy, bank_pki):
    stranger = make_pki(at=utc_now(), seed=12).bank_seal
    for options, found in (
        ({"by": stranger}, "trust.no-path"), ({"by": bank_pki.qseal}, "role.missing"),
        ({"late": timedelta(hours=1)}, "signature.expired"), ({"late": timedelta(hours=-1)}, "signature.created"),
    ):  # fmt: skip
        for name in NAMES:
            error, _ = ask(sealed(as_json(200, STATUS), name, **options), status, **policy)
            assert (error.code, f"[{found}]" in error.message) == ("answer.seal", True), (name, found, error)


def test_a_payment_is_not_lost_when_the_anchors_of_a_verifier_cannot_judge(ask, sealed, policy):
    class Unusable(PathVerifier):
        def verify_use(self, *_: Any, **__: Any) -> Any:
            raise ConfigurationError("trust.unreadable", "the names or extensions of every anchor are malformed")

    error, bank = ask(
        sealed(as_json(201, INITIATED)), pay, **policy | {"answer_anchors": Unusable(policy["answer_anchors"])}
    )
    assert (type(error), error.code, len(bank.requests)) == (OutcomeUnknown, "answer.seal", 1)


def test_the_answer_to_an_earlier_request_is_refused(ask, sealed, policy):
    """A proxy repeats an answer, with the id of the new request."""
    answers: list[bytes] = []
    fresh = sealed(as_json(200, STATUS))

    def stale(raw: bytes) -> bytes:
        answers.append(fresh(raw))
        new, old = _parsed(raw).values("x-request-id")[0], _parsed_answer(answers[0]).values("x-request-id")[0]
        return answers[0].replace(old.encode(), new.encode())

    first, second, _ = ask(stale, status, status, **policy)
    assert first.transaction_status == "RCVD"
    assert (type(second), second.code) == (OutcomeUnknown, "answer.seal")


def test_an_answer_without_a_seal(ask, policy):
    reply = as_json(200, STATUS)
    for answers, expected in (("off", "RCVD"), ("if-present", "RCVD"), ("required", "answer.unsealed")):
        options = policy | {"answers": answers} if answers != "off" else {}
        result, _ = ask(reply, status, **options)
        assert getattr(result, "transaction_status", getattr(result, "code", "")) == expected
    changing, bank = ask(as_json(201, INITIATED), pay, **policy)
    assert (type(changing), changing.code, len(bank.requests)) == (OutcomeUnknown, "answer.unsealed", 1)


def test_a_read_is_repeated_after_an_unsealed_503_of_a_proxy(ask, sealed, policy, driver):
    good, replies, pauses = sealed(as_json(200, STATUS)), [as_json(503, {}), as_json(429, {})], []
    result, bank = ask(
        lambda raw: (replies.pop() if replies else good)(raw), status, sleep=driver.waiting(pauses.append), **policy
    )
    assert (result.transaction_status, len(bank.requests)) == ("RCVD", 3)
    assert len(pauses) == 2


def test_what_a_keeper_raises_reaches_the_caller(ask, sealed, policy):
    class FullError(OSError):
        pass

    def keep(_: VerifiedAnswer) -> None:
        raise FullError("the disk is full")

    with pytest.raises(FullError):
        ask(sealed(as_json(201, INITIATED)), pay, keep_answer=keep, **policy)


def test_settings_that_would_verify_nothing_are_refused(identity, bank_pki, policy):
    anchors = policy["answer_anchors"]
    for options in (
        {"answers": "required"}, {"answers": "if-present"}, {"answers": "always", "answer_anchors": anchors},
        {"answer_anchors": anchors}, {"keep_answer": print}, {"answers": True, "answer_anchors": anchors},
        {"answers": "required", "answer_anchors": "certs"}, {"answers": "if-present", "answer_anchors": Path("certs")},
    ):  # fmt: skip
        with refused(ConfigurationError, "client.answers", row=options):
            Psd2Client("https://localhost:1", identity=identity, **options)
    paths = PathVerifier(anchors)
    Psd2Client("https://localhost:1", identity=identity, answers="required", answer_anchors=paths).close()
