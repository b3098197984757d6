"""A keeper of consents counts as the sandbox's bank does, and stops before the bank refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import pytest

from tppkit.client import ConsentKeeper, CountedBy
from tppkit.errors import FormatError, LocalProtocolError, RequestRefused, TransportError
from tppkit.protocol.psd2 import ALL_ACCOUNTS, Access, Consent, ConsentRequest

# 23:30 in Vilnius, half an hour before the bank's next day.
EVENING = datetime(2026, 3, 1, 21, 30, tzinfo=UTC)
ANSWER = {"status": "valid", "access": {"allPsd2": "allAccounts"}, "validUntil": "2026-03-20", "frequencyPerDay": 2}
CONSENT = Consent.from_object(ANSWER)


class Clock:
    def __init__(self) -> None:
        self.at = EVENING

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


def keeper_of(clock: Clock, **settings: object) -> ConsentKeeper:
    keeper = ConsentKeeper(now=clock, **settings)
    keeper.add("c", CONSENT)
    return keeper


def refusal(status: int, code: str | None) -> RequestRefused:
    return RequestRefused("refused", status=status, peer_code=code, peer_text=None, request_id=None)


def left(keeper: ConsentKeeper, **place: str) -> int:
    return keeper.use("c", **place).reads_left


def read(keeper: ConsentKeeper, error: Exception | None = None, **place: str) -> None:
    with keeper.read("c", **place):
        if error is not None:
            raise error


def test_reads_without_the_customer_are_used_up_until_the_banks_next_day(clock):
    keeper = keeper_of(clock)
    for expected in (2, 1):
        assert left(keeper) == expected
        read(keeper)
    with pytest.raises(LocalProtocolError) as stopped:
        read(keeper)
    assert stopped.value.code == "access.exceeded"
    assert keeper.use("c").needs_customer
    read(keeper, psu_ip_address="192.0.2.7")
    clock.at += timedelta(minutes=30)
    assert (left(keeper), keeper.use("c").needs_customer) == (2, False)


def test_what_the_bank_refuses_is_not_counted_and_what_is_lost_is(clock):
    keeper = keeper_of(clock)
    for error, expected in (
        (refusal(403, "CONSENT_UNKNOWN"), 2),
        (refusal(429, None), 2),
        (TransportError("x", ""), 1),
    ):
        with pytest.raises(type(error)):
            read(keeper, error)
        assert left(keeper) == expected


def test_the_bank_that_counts_otherwise_is_believed(clock):
    keeper = keeper_of(clock)
    with pytest.raises(RequestRefused):
        read(keeper, refusal(429, "ACCESS_EXCEEDED"))
    assert left(keeper) == 0
    clock.at += timedelta(hours=1)
    with pytest.raises(RequestRefused):  # the bank does not accept the address
        read(keeper, refusal(429, "ACCESS_EXCEEDED"), psu_ip_address="192.0.2.7")
    assert left(keeper) == 0


def test_addresses_of_no_customer_do_not_lift_the_limit(clock):
    keeper = keeper_of(clock)
    read(keeper, psu_ip_address="127.0.0.1")
    assert left(keeper) == 1
    with pytest.raises(FormatError):
        read(keeper, psu_ip_address="home")
    assert left(keeper) == 1


def test_a_bank_may_count_each_account_and_endpoint(clock):
    keeper = keeper_of(clock, counted_by=CountedBy.ENDPOINT)
    read(keeper, account="a", endpoint="balances")
    places = ("a", "balances"), ("a", "transactions"), ("b", "balances")
    assert [left(keeper, account=account, endpoint=endpoint) for account, endpoint in places] == [1, 2, 2]


def test_a_consent_counts_down_to_its_last_day(clock):
    keeper = keeper_of(clock, renewal=timedelta(days=5))
    for day, expected in (((2026, 3, 1), (20, False)), ((2026, 3, 15), (6, True)), ((2026, 3, 20), (1, True))):
        clock.at = datetime(*day, 12, tzinfo=UTC)
        use = keeper.use("c")
        assert (use.days_left, use.is_renewal_due, use.renew_from) == (*expected, date(2026, 3, 15))
        assert not use.needs_customer
    clock.at += timedelta(days=1)
    assert (keeper.use("c").days_left, keeper.use("c").needs_customer) == (0, True)
    with pytest.raises(LocalProtocolError) as ended:
        read(keeper, psu_ip_address="192.0.2.7")
    assert ended.value.code == "consent.expired"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("expired", "consent.expired"),
        *((revoked, "consent.invalid") for revoked in ("revoked", "terminatedByTpp", "rejected")),
    ],
)
def test_a_consent_that_the_bank_has_ended_is_not_read(clock, status, code):
    keeper = keeper_of(clock)
    keeper.add("c", Consent.from_object({**ANSWER, "status": status}))
    use = keeper.use("c")
    assert (use.reads_left, use.days_left, use.needs_customer, use.is_renewal_due) == (0, 0, True, True)
    assert use.renew_from <= EVENING.date()
    for address in (None, "192.0.2.7"):
        with pytest.raises(LocalProtocolError) as ended:
            read(keeper, psu_ip_address=address)
        assert ended.value.code == code


def test_an_unknown_consent_is_no_consent(clock):
    keeper = keeper_of(clock)
    keeper.remove("c")
    for ask in (keeper.use, lambda name: keeper.read(name).__enter__()):
        with pytest.raises(LocalProtocolError) as unknown:
            ask("c")
        assert unknown.value.code == "consent.unknown"


def test_counts_can_be_kept_by_the_caller(clock):
    kept: dict[tuple[str, date], int] = {}

    def count(name: str, day: date, more: int) -> int:
        kept[name, day] = kept.get((name, day), 0) + more
        return kept[name, day]

    read(keeper_of(clock, count=count))
    restarted = keeper_of(clock, count=count)
    assert (left(restarted), kept) == (1, {("c", date(2026, 3, 1)): 1})


def test_threads_do_not_read_more_than_is_left(clock):
    keeper = keeper_of(clock)
    keeper.add("c", CONSENT.model_copy(update={"frequency_per_day": 50}))
    done = []

    def try_once(number: int) -> None:
        with suppress(LocalProtocolError):
            read(keeper)
            done.append(number)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(try_once, range(200)))
    assert (len(done), left(keeper)) == (50, 0)


def test_it_counts_as_the_sandboxes_bank_does(tppkit_bank):
    client = tppkit_bank.client(roles=["PSP_AI"])
    keeper = ConsentKeeper(now=tppkit_bank.now)
    day = tppkit_bank.now().date()
    request = ConsentRequest(
        access=Access(all_psd2=ALL_ACCOUNTS), recurring_indicator=True, valid_until=day + timedelta(days=30),
        frequency_per_day=3,
    )  # fmt: skip
    consent_id = client.create_consent(request).consent_id
    tppkit_bank.approve_consent(consent_id)
    keeper.add(consent_id, client.consent(consent_id))
    with keeper.read(consent_id):
        account = client.accounts(consent_id).accounts[0].resource_id
    with keeper.read(consent_id, account=account):  # two pages
        assert len(list(client.iter_transactions(consent_id, account, date_from=day - timedelta(days=400)))) > 100
    with pytest.raises(RequestRefused), keeper.read(consent_id):
        client.balances(consent_id, "none")
    assert keeper.use(consent_id).reads_left == 1
    with keeper.read(consent_id):
        client.balances(consent_id, account)
    assert keeper.use(consent_id).needs_customer
    with pytest.raises(RequestRefused) as refused:
        client.balances(consent_id, account)
    assert refused.value.peer_code == "ACCESS_EXCEEDED"
    tppkit_bank.advance(timedelta(days=1))
    assert keeper.use(consent_id).reads_left == 3
