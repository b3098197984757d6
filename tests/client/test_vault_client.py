"""Both clients of the card vault against servers on loopback that answer as scripted."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from rogue_bank import as_json, http, server_context
from scripted import KEY, LOST, Player, in_turn

from reported import reported
from tppkit.client import AsyncVaultClient, StoreResult, VaultClient
from tppkit.client.answers import TransportErrors
from tppkit.client.vault import VaultCalls
from tppkit.errors import ConfigurationError, OutcomeUnknown, RequestRefused, Severity, TransportError
from tppkit.protocol.gateway import CardRequest, CardSecret
from tppkit.testpki import Pki

PAN, TOKEN = "4111111111111111", "11111111-0000-4000-8000-000000000000"
STORED = {"vault_token": TOKEN, "truncated_pan": "411111******1111", "brand": "visa", "brands": ["visa"]}


def card(pan: str = PAN) -> CardRequest:
    return CardRequest(pan=CardSecret(pan), expiry=CardSecret("122030"), setup_token=TOKEN, name="Ada")


def store(client: Any) -> Any:
    return client.store_card(card())


@pytest.fixture(params=[VaultClient, AsyncVaultClient], ids=["sync", "async"])
def play(request: pytest.FixtureRequest, bank_pki: Pki, bank_pki_folder: Path) -> Player:
    return Player(request.param, bank_pki_folder, bank_pki, repeats=False)


@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_card_is_stored_with_the_key_of_the_gateway(status, play):
    stored, server = play.ask(as_json(status, STORED), store)
    assert (stored.card.vault_token, stored.card.brands, stored.warnings) == (TOKEN, ("visa",), ())
    message = server.message()
    assert (message.method, message.target) == ("POST", "/v1/cards/")
    assert message.values("authorization") == ("Basic " + base64.b64encode(f"{KEY}:".encode()).decode(),)
    assert json.loads(message.body) == {"pan": PAN, "expiry": "122030", "setup_token": TOKEN, "name": "Ada"}


def test_a_wrong_check_digit_is_a_warning_without_the_number(play):
    number = PAN[:-1] + "2"
    stored, server = play.ask(as_json(201, STORED), lambda client: client.store_card(card(number)))
    assert isinstance(stored, StoreResult)
    assert [(warning.code, warning.severity) for warning in stored.warnings] == [("card.luhn", Severity.WARNING)]
    assert number.encode() in server.message().body
    assert number not in repr(stored)


@pytest.mark.parametrize("name", LOST)
def test_a_card_whose_answer_is_lost_is_sent_once(name, play):
    error, server = play.ask(in_turn(LOST[name], as_json(201, STORED)), store)
    assert isinstance(error, OutcomeUnknown | TransportError)
    assert "setup token used up" in error.message
    assert len(server.requests) == 1


def test_a_refusal_is_reported_without_what_was_sent(play, caplog):
    caplog.set_level(logging.DEBUG)
    text = f"the card {PAN}, also 4111 1111 1111 1111, until 122030 is refused by {KEY}"
    error, _ = play.ask(as_json(400, {"error": {"code": "CARD_INVALID", "message": text}}), store)
    assert (type(error), error.peer_code) == (RequestRefused, "CARD_INVALID")
    assert error.peer_text == "the card ***, also ***, until *** is refused by ***"
    call = VaultCalls("https://vault.example", api_key=KEY).store_card(card())
    shown = [str(error), repr(vars(error)), repr(pickle.dumps(error)), *reported(error), repr(call)]
    repeating = http(201, f'{{"pan": "{PAN}"'.encode()), as_json(201, {"vault_token": TOKEN, "truncated_pan": [PAN]})
    for answer in (*repeating, *LOST.values()):
        lost, _ = play.ask(answer, store)
        shown += [repr(vars(lost)), *reported(lost)]
    everything = "".join([*shown, caplog.text])
    for secret in (PAN, "4111 1111", "122030", KEY):
        assert secret not in everything


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "limit_s"), [(VaultClient, None), (AsyncVaultClient, None), (AsyncVaultClient, 2.0)]
)
def test_a_card_is_not_among_the_variables_of_the_frames_that_were_sending_it(
    client, limit_s, bank_pki, bank_pki_folder
):
    def send(client: Any) -> Any:
        sending = client.store_card(long)
        return asyncio.wait_for(sending, limit_s) if limit_s else sending  # the caller's limit cancels the call

    play = Player(client, bank_pki_folder, bank_pki, repeats=False)
    long = card().model_copy(update={"name": "A" * 9_000_000})
    listener = socket.create_server(("127.0.0.1", 0))
    with server_context(play.folder).wrap_socket(listener, server_side=True) as server, ThreadPoolExecutor(1) as pool:
        accepted, url = pool.submit(server.accept), f"https://localhost:{server.getsockname()[1]}"
        with pytest.raises((TransportError, TimeoutError)) as lost:  # nobody reads it
            play.run(url, send, timeout_s=20 if limit_s else 2)
        accepted.result()[0].close()
    assert not [line for line in reported(lost.value) if PAN in line]


@pytest.mark.parametrize(("url", "key"), [("http://vault.example", KEY), ("https://vault.example", f"{KEY}\n")])
def test_a_secret_key_is_not_among_the_variables_of_a_client_that_is_refused(url, key):
    with pytest.raises(ConfigurationError) as refused:
        VaultClient(url, api_key=SecretStr(key))
    assert not [line for line in reported(refused.value) if KEY in line]


def test_a_server_without_an_answer_body_is_no_refusal(play):
    error, _ = play.ask(http(404), store)
    assert (type(error), error.code, error.status) == (OutcomeUnknown, "answer.no-outcome", 404)


def test_an_error_of_a_hook_loses_the_frames_of_its_causes_and_members():
    def fail() -> BaseException:
        try:
            raise ValueError
        except ValueError as error:
            return error

    member, cause, context = fail(), fail(), fail()
    group = ExceptionGroup("of a hook", [member])
    cause.__cause__, cause.__context__ = cause, context  # a cycle
    with pytest.raises(ExceptionGroup), TransportErrors():
        raise group from cause
    assert [error.__traceback__ for error in (member, cause, context)] == [None] * 3
