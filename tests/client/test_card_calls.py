"""What the clients of the gateway and the vault hide of a request, in the errors of a server that repeats it and in pickles."""

from __future__ import annotations

import base64
import json
import pickle

import pytest
from scripted import KEY

from tppkit.client.calls import ServerAnswer
from tppkit.client.gateway_calls import GatewayCalls
from tppkit.protocol.gateway import CardSecret, OrderRequest, PaymentMethodDetails, TransactionRequest
from tppkit.protocol.gateway.bodies import AuthenticateRequest
from tppkit.protocol.gateway.endpoints import AUTHENTICATE, CREATE_ORDER

ID, PAN, CAVV = "11111111-0000-4000-8000-000000000000", "4000056655665556", 'AA+/"\\='
GATEWAY = GatewayCalls("https://gateway.example", api_key=KEY)
EXTERNAL = {"cavv": CAVV, "three_ds_version": "2.2.0", "three_ds_method_used": True, "ds_transaction_id": "D-1"}
AUTHENTICATION = GATEWAY.call(
    AUTHENTICATE,
    AuthenticateRequest(vault_token=ID, cvc=CardSecret("000"), **EXTERNAL),
    order_id=ID,
    transaction_id=ID,
)
DETAILS = PaymentMethodDetails(
    card_expiry=CardSecret("122030"), cvc=CardSecret("0739"), receiver_account_number=CardSecret(PAN)
)
ORDER = GATEWAY.call(
    CREATE_ORDER,
    OrderRequest(currency="EUR", amount=1, transactions=(TransactionRequest(payment_method_details=DETAILS),)),
)
ENCODED_KEY = base64.b64encode(f"{KEY}:".encode()).decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"key {KEY}", "key ***"), (f"Basic {ENCODED_KEY}", "Basic ***"), (f"cavv {CAVV}", "cavv ***"),
        (f"card {ID.upper()}", "card ***"), ("cvc 000, 1000 EUR, 0001", "cvc ***, 1000 EUR, 0001"), ("1.000", "1.***"),
    ],
)  # fmt: skip
def test_key_code_and_proof_are_hidden_where_a_server_repeats_them(text, shown):
    answer = ServerAnswer(400, {}, json.dumps({"error": {"code": text, "message": text}}).encode())
    assert GATEWAY.peer_error(AUTHENTICATION, answer) == (shown, shown)


@pytest.mark.parametrize("separator", ["", " ", "-", ".", "_", "\N{NO-BREAK SPACE}", "%20"])
def test_a_card_is_hidden_with_any_separator(separator):
    groups, expiry = separator.join(PAN[at : at + 4] for at in range(0, 16, 4)), separator.join(("12", "2030"))
    answer = ServerAnswer(400, {}, json.dumps({"error": {"message": f"{groups} until {expiry}, 0739; 1 EUR"}}).encode())
    assert GATEWAY.peer_error(ORDER, answer)[1] == "*** until ***, ***; 1 EUR"


def test_a_request_with_a_card_is_not_pickled():
    assert PAN.encode() in ORDER.message.body
    with pytest.raises(TypeError, match="card data"):
        pickle.dumps(ORDER.message)
