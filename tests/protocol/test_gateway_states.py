"""The machines of the gateway: moves of the document's meanings and of the assumptions, and no others."""

from __future__ import annotations

import pytest

from tppkit.protocol.gateway.states import AUTHORISATION, ORDER, PAYMENT_LINK, SETUP_TOKEN, TRANSACTION

MACHINES = {
    "order": ORDER,
    "transaction": TRANSACTION,
    "link": PAYMENT_LINK,
    "token": SETUP_TOKEN,
    "authorisation": AUTHORISATION,
}
# Reference of the interfaces, chapter Gateway, "Machines"; the end of a setup token after 300 seconds is no move.
SHOWN = {
    "order": "new-processing new-cancelled new-expired new-error processing-completed processing-see-transactions"
    " processing-cancelled processing-expired processing-error",
    "transaction": "new-accepted new-declined",
    "link": "new-processing new-expired processing-completed processing-all_unsuccessful all_unsuccessful-processing"
    " all_unsuccessful-expired",
    "token": "unused-used",
    "authorisation": "open-captured open-open open-voided open-lapsed",
}
FINAL = {
    "order": "completed see-transactions cancelled expired error",
    "transaction": "accepted declined",
    "link": "completed expired",
    "token": "used",
    "authorisation": "captured voided lapsed",
}


@pytest.mark.parametrize(("name", "machine"), MACHINES.items())
def test_a_machine_has_these_moves_only(name, machine):
    assert {f"{state}-{after}" for (state, _), after in machine.moves.items()} == set(SHOWN[name].split())


@pytest.mark.parametrize(("name", "machine"), MACHINES.items())
def test_these_states_are_final(name, machine):
    assert machine.final == set(FINAL[name].split())


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_state_is_reached_and_left_unless_it_is_final(machine):
    left = {state for state, _ in machine.moves}
    assert not left & machine.final
    assert {machine.initial, *machine.moves.values()} == left | machine.final == set(type(machine.initial))
