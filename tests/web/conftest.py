"""Gates in memory, and for servers on loopback a PKI that is valid today: TLS asks the machine's clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgi import AT, EVERY_PATH, Recorder, sealed

from tppkit.protocol.endpoint import Interface
from tppkit.seals import KeySigner, Message, Seal, SealPolicy
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier, make_anchors
from tppkit.web import ProxyForm, QwacPolicy, SealGate, TrustedProxy


@pytest.fixture
def app() -> Recorder:
    return Recorder()


@pytest.fixture
def good(seal: Seal) -> Message:
    return sealed(seal)


@pytest.fixture
def make_gate(paths: PathVerifier, policy: SealPolicy) -> Callable[..., SealGate]:
    """Makes a gate at AT that trusts a proxy on loopback."""

    def made(interface: Interface = EVERY_PATH, **settings: Any) -> SealGate:
        proxy = TrustedProxy("127.0.0.1", form=ProxyForm.RFC9440)
        fixed = {"qwacs": QwacPolicy(paths), "seals": policy, "now": lambda: AT, "trusted_proxies": [proxy]}
        return SealGate(interface, **fixed | settings)

    return made


@pytest.fixture(scope="session")
def live_paths(bank_pki: Pki) -> PathVerifier:
    return PathVerifier(make_anchors(bank_pki.authorities))


@pytest.fixture(scope="session")
def live_seal(bank_pki: Pki) -> Seal:
    return Seal(bank_pki.qseal.certificate, KeySigner(bank_pki.qseal.key))
