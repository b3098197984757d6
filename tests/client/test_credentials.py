"""One X-Request-ID is one request, however many threads and tasks send it."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from dialects import identity_of

from refusals import refused
from tppkit._clock import utc_now
from tppkit.client import Identity, Psd2Client, SealAuth
from tppkit.client.credentials import MAX_READING, SealCredentials
from tppkit.errors import ConfigurationError, FormatError, TppkitError, TransportError
from tppkit.httpsig import CallableSigner, KeySigner
from tppkit.httpsig.components import Origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.protocol.psd2 import ALL_ACCOUNTS, Access, ConsentRequest, parse_persona
from tppkit.seals import PROFILES, KeyIdForm, Message, Seal, SealPolicy, SealProfile, verify_request
from tppkit.seals.profiles import PSD2_V1
from tppkit.testpki import Pki, make_pki
from tppkit.trust import PathVerifier, make_anchors

ID = "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"
AT = datetime(2026, 1, 1, tzinfo=UTC)
ORIGIN = Origin("https", "bank.example")
DATE = ("Date", "Thu, 01 Jan 2026 00:00:01 GMT")


def message(
    body: bytes = b"{}", *, method: str = "POST", target: str = "/x", rid: str = ID, headers: Any = ()
) -> Message:
    return Message(method, target, (("X-Request-ID", rid), *headers), body)


def sealing_in(pki: Pki, profile: SealProfile = PSD2_V1, *, clock: list[datetime] | None = None) -> Requests:
    key_id = "client-1" if profile.key_id.form is KeyIdForm.CLIENT_ID else None
    seal = Seal.for_key(pki.qseal.certificate, pki.qseal.key, profile=profile, key_id=key_id)
    return sealing(identity_of(pki, seal), clock=clock)


def sealing(identity: Identity, *, clock: list[datetime] | None = None, **options: Any) -> Requests:
    now = (lambda: AT) if clock is None else (lambda: clock[0])
    return Requests(identity, now=now, **{"origin": ORIGIN} | options)


class Requests(SealCredentials):
    """Gives a new id where a test does not say which."""

    def seal(self, message: Message, *, give_id: Callable[[str], str] = lambda _: str(uuid4())) -> Message:
        return super().seal(message, give_id=give_id)

    async def seal_async(self, message: Message, *, give_id: Callable[[str], str] = lambda _: str(uuid4())) -> Message:
        return await super().seal_async(message, give_id=give_id)


class SlowSigner:
    """Signs with the key of a seal when asked, and counts.

    Attributes:
        begun: how many signatures were asked for, the probe of the seal not among them.
        go: what they wait for.
        failing: how many of the next ones fail.
    """

    def __init__(self, pki: Pki) -> None:
        self._signer = KeySigner(pki.qseal.key)
        self.begun, self.failing = -1, 0
        self.go = threading.Event()
        self.go.set()
        signer = CallableSigner(pki.qseal.certificate.public_key, sign=self.sign, sign_async=self.sign_async)
        self.identity = identity_of(pki, Seal(pki.qseal.certificate, signer))
        self.go.clear()

    def sign(self, data: bytes) -> bytes:
        self.begun += 1
        assert self.go.wait(10)
        if self.failing:
            self.failing -= 1
            raise TransportError("signer.timeout", "the service did not answer")
        return self._signer.sign(data)

    async def sign_async(self, data: bytes) -> bytes:
        return await asyncio.to_thread(self.sign, data)


@pytest.fixture
def slow(bank_pki: Pki) -> SlowSigner:
    return SlowSigner(bank_pki)


def send_all(ready: Requests, messages: Sequence[Message], slow: SlowSigner, *, threads: bool) -> list[Any]:
    """What each gets, or the code of its refusal."""

    async def main() -> list[Any]:
        asyncio.get_running_loop().call_later(0.2, slow.go.set)
        send = partial(asyncio.to_thread, ready.seal) if threads else ready.seal_async
        return await asyncio.gather(*map(send, messages), return_exceptions=True)

    return [getattr(result, "code", result) for result in asyncio.run(main())]


def unsigned(sealed: Message) -> tuple[Any, ...]:
    """All that repetitions have in common."""
    headers = tuple(field for field in sealed.headers if field[0] != "Signature")
    return sealed.method, sealed.target, headers, sealed.body


RACES = pytest.mark.parametrize("threads", [True, False], ids=["threads", "tasks"])


@RACES
def test_two_bodies_under_one_id_never_both_get_a_signature(threads, slow):
    results = send_all(sealing(slow.identity), [message(b"pay 1"), message(b"pay 2")], slow, threads=threads)
    assert sorted(map(type, results), key=lambda kind: kind.__name__) == [Message, str]
    assert "seal.request-id-reused" in results


@RACES
def test_one_request_from_several_sides_is_sealed_for_each(threads, slow):
    sealed = send_all(sealing(slow.identity), [message()] * 6, slow, threads=threads)
    assert all(dict(one.headers)["Signature"] for one in sealed)
    assert {unsigned(one) for one in sealed} == {unsigned(sealed[0])}


@RACES
def test_a_failed_signature_is_an_error_of_its_own_request_only(threads, slow):
    slow.failing = 1
    results = send_all(sealing(slow.identity), [message()] * 3, slow, threads=threads)
    sealed = [result for result in results if result != "signer.timeout"]
    assert len(sealed) == 2
    assert unsigned(sealed[0]) == unsigned(sealed[1])


def test_a_failed_signature_leaves_the_id_free_for_another_request_but_not_of_one_that_was_sealed(slow):
    ready, slow.failing = sealing(slow.identity), 1
    slow.go.set()
    with pytest.raises(TransportError):
        ready.seal(message(b"one"))
    assert ready.seal(message(b"two"))
    slow.failing = 2
    with pytest.raises(TransportError):
        ready.seal(message(b"two"))
    with refused(TppkitError, "seal.request-id-reused"):
        ready.seal(message(b"other"))


@pytest.mark.parametrize("cancelled", [0, 1], ids=["first", "second"])
def test_a_task_that_is_cancelled_takes_nothing_from_the_other(cancelled, slow):
    ready = sealing(slow.identity)

    async def main() -> tuple[Any, Any]:
        tasks = [asyncio.create_task(ready.seal_async(message())) for _ in range(2)]
        while slow.begun < 2:
            await asyncio.sleep(0.01)
        tasks[cancelled].cancel()
        await asyncio.sleep(0)
        slow.go.set()
        return await tasks[1 - cancelled], await ready.seal_async(message())

    first, again = asyncio.run(main())
    assert unsigned(first) == unsigned(again)


@pytest.mark.parametrize(
    "other",
    [{"body": b"[]"}, {"method": "PUT"}, {"method": "GET"}, {"target": "/y"}],
    ids=["body", "method", "a method that only reads", "target"],
)
def test_a_dialect_that_does_not_cover_the_target_still_has_one_request_for_an_id(other, bank_pki):
    ready = sealing_in(bank_pki, PROFILES["berlin-group"])
    ready.seal(message())
    with refused(TppkitError, "seal.request-id-reused"):
        ready.seal(message(**other))


def test_a_payment_stays_known_however_many_polls_come_after_it_and_only_the_last_polls_are(bank_pki):
    ready = sealing_in(bank_pki)
    ready.seal(message())
    for _ in range(MAX_READING + 1):
        ready.seal(message(b"", method="GET", rid=str(uuid4())))
    with refused(TppkitError, "seal.request-id-reused"):
        ready.seal(message(b"other"))
    for number in range(MAX_READING + 1):
        ready.seal(message(b"", method="GET", target="/first", rid=str(UUID(int=number))))
    assert ready.seal(message(b"", method="GET", target="/second", rid=str(UUID(int=0))))
    with refused(TppkitError, "seal.request-id-reused"):
        ready.seal(message(b"", method="GET", target="/second", rid=str(UUID(int=MAX_READING))))


def request_for(profile: SealProfile) -> Message:
    name = profile.request_id or "x-request-id"
    ours = {name, "date", profile.digest_name}
    further = [(field, "x") for field in sorted(profile.demanded - ours) if field[0] not in "@("]
    return Message("POST", "/x", ((name, ID), *further), b"{}")


@pytest.fixture(scope="module")
def rsa_pki() -> Pki:
    return make_pki(at=AT, key="rsa2048")


@pytest.mark.parametrize("name", ["cavage-12", "amazon", "open-finance", "adorsys"])
def test_a_repetition_has_a_seal_of_its_own_time_and_no_other_body(name, bank_pki, rsa_pki):
    profile, clock = PROFILES[name], [AT]
    pki = rsa_pki if name == "amazon" else bank_pki
    ready = sealing_in(pki, profile, clock=clock)
    one = request_for(profile)
    first = ready.seal(one)
    clock[0] += timedelta(hours=2)
    with refused(TppkitError, "seal.request-id-reused"):
        ready.seal(one._replace(body=b"[]"))
    again = ready.seal(one)
    assert again != first
    assert (again.method, again.target, again.body) == (first.method, first.target, first.body)
    id_name = profile.request_id or "x-request-id"
    assert again.values(id_name) == first.values(id_name) == (ID,)
    if "date" in profile.covered:
        assert again.values("date") == (format_http_date(clock[0]),)


def test_a_date_of_the_callers_is_sealed_and_added_only_where_it_is_absent(rsa_pki):
    ready, dated = sealing_in(rsa_pki, PROFILES["adorsys"]), message(headers=[DATE])
    first, again, undated = (ready.seal(request) for request in (dated, dated, message()))
    assert first.values("date") == again.values("date") == (DATE[1],)
    assert undated.values("date") == (format_http_date(AT),)
    for sealed in (first, again, undated):
        policy = SealPolicy(PathVerifier(make_anchors(rsa_pki.authorities)), profile=PROFILES["adorsys"])
        verify_request(sealed, qwac=None, at=max(AT, rsa_pki.not_before), policy=policy)


class RenewedWhenRead(Identity):
    """Another thread renews it as soon as its seal was read once."""

    other: Identity | None = None

    @property
    def seal(self) -> Seal | None:
        seal = super().seal
        if self.other is not None:
            other, self.other = self.other, None
            self.renew(other, at=self.qwac.not_before)
        return seal


def test_the_id_has_the_header_of_the_seal_that_signs_even_if_the_identity_is_renewed_meanwhile(bank_pki):
    covered = tuple("x-other-id" if name == "x-request-id" else name for name in PSD2_V1.covered)
    other = replace(PSD2_V1, name="other", covered=covered, request_id="x-other-id")
    seals = [Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key, profile=row) for row in (PSD2_V1, other)]
    identity = RenewedWhenRead(
        bank_pki.qwac.certificate, bank_pki.qwac.key, seal=seals[0], server_anchors=[bank_pki.root.certificate]
    )
    ready = sealing(identity)
    identity.other = identity_of(bank_pki, seals[1])
    request = Message("POST", "/x", (), b"{}")
    assert [ready.seal(request).headers[0][0] for _ in range(2)] == ["X-Request-ID", "x-other-id"]


def test_a_retry_after_a_renewal_has_the_new_seal_and_the_same_id_and_body(bank_pki):
    first_seal = Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key)
    identity = identity_of(bank_pki, first_seal)
    ready = sealing(identity)
    first = ready.seal(message())
    issued = bank_pki.issue_qseal(bank_pki.provider, label="renewed")
    identity.renew(identity_of(bank_pki, Seal.for_key(issued.certificate, issued.key)), at=bank_pki.not_before)
    again = ready.seal(message())
    assert dict(again.headers)["TPP-Signature-Certificate"] != dict(first.headers)["TPP-Signature-Certificate"]
    assert (again.values("X-Request-ID"), again.body) == (first.values("X-Request-ID"), first.body)
    with refused(TppkitError, "seal.request-id-reused"):
        ready.seal(message(b"other"))


@pytest.mark.parametrize("rid", ["", " ", " abc", "abc\t", "abc\xa0"])
@pytest.mark.parametrize("given", [True, False], ids=["in the request", "new"])
def test_an_id_that_is_another_one_on_the_wire_is_refused(given, rid, bank_pki):
    ready = sealing_in(bank_pki)
    ready.seal(message(b"1", rid="abc"))
    other = message(b"2", rid=rid) if given else Message("POST", "/x", (), b"2")
    with refused(TppkitError, "seal.request-id-malformed"):
        ready.seal(other, give_id=lambda _: rid)


def test_what_is_known_of_a_request_takes_less_than_half_a_kib(bank_pki):
    ready, count = sealing_in(bank_pki), 500
    ready.seal(message())
    requests = [message(str(number).encode(), rid=str(uuid4())) for number in range(count)]
    tracemalloc.start()
    try:
        for request in requests:
            ready.seal(request)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept / count < 512


def made_for(pki: Pki, origin: Origin | None) -> Identity:
    return identity_of(pki, Seal.for_key(pki.qseal.certificate, pki.qseal.key, origin=origin))


def test_an_identity_that_seals_in_another_dialect_than_the_bank_is_refused_before_anything_is_sent(bank_pki):
    def client(profile, persona="berlin-group"):
        seal = Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key, profile=profile)
        return Psd2Client("https://bank.example", identity=identity_of(bank_pki, seal), persona=persona)

    with refused(ConfigurationError, "seal.other-dialect"):
        client("psd2-v1")
    own = replace(PSD2_V1, name="our-own")
    for allowed in (("berlin-group",), (own,), ("berlin-group", "document")):
        client(*allowed).close()
    with refused(ConfigurationError, "profile.unknown"):
        client("berlin")


def test_a_seal_for_another_origin_is_refused_before_anything_is_sealed_also_a_renewed_one(bank_pki):
    other = made_for(bank_pki, Origin("https", "other.example"))
    for contradicting in (
        lambda: sealing(other),
        lambda: SealAuth(other, origin="https://bank.example"),
        lambda: Psd2Client("https://bank.example/prefix", identity=other),
    ):
        with refused(TppkitError, "seal.other-origin"):
            contradicting()
    for origin in (None, ORIGIN):
        SealAuth(made_for(bank_pki, origin), origin="https://BANK.example:443/")
        Psd2Client("https://BANK.example:443/prefix", identity=made_for(bank_pki, origin)).close()
    identity = made_for(bank_pki, ORIGIN)
    ready = sealing(identity)
    identity.renew(made_for(bank_pki, Origin("https", "other.example")), at=utc_now())
    with refused(TppkitError, "seal.other-origin"):
        ready.seal(message())


def test_a_header_that_the_bank_requires_is_named_with_its_argument(bank_pki):
    ours = parse_persona(
        b'based_on = "document"\nname = "x"\nsource = "y"\n[endpoints.create_consent]\n'
        b'required_headers = ["TPP-Redirect-URI", "X-Own"]'
    )
    consent = ConsentRequest(
        access=Access(all_psd2=ALL_ACCOUNTS), valid_until=utc_now().date() + timedelta(days=9), frequency_per_day=4
    )
    seal = Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key)
    with (
        Psd2Client("https://bank.example", identity=identity_of(bank_pki, seal), persona=ours) as client,
        pytest.raises(FormatError) as caught,
    ):
        client.create_consent(consent)
    assert caught.value.message == "this bank requires the header TPP-Redirect-URI (redirect_uri=), X-Own"
