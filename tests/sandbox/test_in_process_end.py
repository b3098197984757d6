"""A sandbox without a network leaves no file or thread; no other one, whose threads begin later, is open meanwhile."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from test_in_process import PAYMENT

from tppkit._clock import utc_now
from tppkit.errors import ConfigurationError, TransportError
from tppkit.sandbox import Sandbox
from tppkit.testpki import make_pki


@pytest.mark.parametrize("failure", [None, LookupError("of the test")])
def test_close_removes_all_files_and_threads(failure):
    before = set(threading.enumerate())
    with suppress(LookupError), Sandbox() as bank:
        bank.client().initiate_payment(PAYMENT)
        if failure is not None:
            raise failure
    assert not bank.directory.exists()
    assert set(threading.enumerate()) <= before
    for call in (bank.client().initiate_payment, lambda _: bank.advance(timedelta()), lambda _: bank.evidence()):
        with pytest.raises(TransportError, match="closed"):
            call(PAYMENT)


def test_a_bank_that_cannot_start_leaves_nothing_behind(tmp_path, monkeypatch):
    before, folder = set(threading.enumerate()), tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    pki = make_pki(at=utc_now())
    server = replace(pki.server, certificate=pki.qwac.certificate)  # does not belong to its key
    with pytest.raises(ConfigurationError):
        Sandbox(pki=replace(pki, members={**pki.members, "server": server}))
    assert not [*folder.iterdir()]
    assert set(threading.enumerate()) <= before
