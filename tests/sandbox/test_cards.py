"""The card search of the gateway's tests finds a card in every place."""

from __future__ import annotations

import logging

import httpx
import pytest
from cards import Cards, logged_at_debug

LOGGER = logging.getLogger("tppkit.sandbox.test")


def test_a_test_without_card_data_passes_the_search(cards, tmp_path):
    LOGGER.debug("card %s", cards.pan()[:6])
    cards.watch(tmp_path)
    assert len({cards.pan(), cards.cvc(), cards.pan("4111111111111111"), cards.pan("4111111111111111")}) == 3


@pytest.mark.parametrize("place", ["log", "answer", "folder", "place"])
def test_a_card_is_found(place, caplog, tmp_path):
    LOGGER.setLevel(logging.ERROR)
    LOGGER.propagate = False
    with logged_at_debug():
        cards = Cards(caplog)
        secret = cards.cvc()
        cards.keep(httpx.Response(200, text=f"card {secret}" if place == "answer" else ""))
        LOGGER.debug("card %s", secret if place == "log" else "-")
        (cards.watch(tmp_path) / "log").write_text(f"card {secret}" if place == "folder" else "")
        with pytest.raises(AssertionError, match="card 1, security code"):
            cards.firewall(f"card {secret}" if place == "place" else "")
    assert (LOGGER.level, LOGGER.propagate) == (logging.ERROR, False)
    LOGGER.setLevel(logging.NOTSET)
    LOGGER.propagate = True
