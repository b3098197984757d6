"""Servers on loopback for the middleware, and a PKI that is valid today: TLS asks the machine's clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tppkit._clock import utc_now
from tppkit.seals import KeySigner, Seal
from tppkit.testpki import Pki, make_pki, write_pki
from tppkit.trust import PathVerifier, make_anchors


@pytest.fixture(scope="session")
def live_pki() -> Pki:
    return make_pki(at=utc_now(), seed=21)


@pytest.fixture(scope="session")
def live_folder(live_pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "pki"
    write_pki(live_pki, folder)
    return folder


@pytest.fixture(scope="session")
def live_paths(live_pki: Pki) -> PathVerifier:
    return PathVerifier(make_anchors(live_pki.authorities))


@pytest.fixture(scope="session")
def live_seal(live_pki: Pki) -> Seal:
    return Seal(live_pki.qseal.certificate, KeySigner(live_pki.qseal.key))
