"""Sealing in two steps, with await, and with a look at one's own signature."""

from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from sealing import AT, REQUEST, fresh_policy, policy_of, request_for, seal_of, verdict

from refusals import refused
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.httpsig import CallableSigner
from tppkit.message import Message
from tppkit.seals import PROFILES, Format, Seal, prepare_request, sign_request, sign_request_async
from tppkit.testpki import Issued, Pki

ROWS = pytest.mark.parametrize("row", PROFILES.values(), ids=PROFILES)


class Service:
    """Signs like a remote service: with await only, and counts."""

    def __init__(self, issued: Issued) -> None:
        self._key = issued.key
        self.asked = 0
        self.broken = False

    async def sign(self, data: bytes) -> bytes:
        await asyncio.sleep(0)
        self.asked += 1
        return self._key.sign(data[:-1] if self.broken else data, ec.ECDSA(hashes.SHA256()))


@pytest.fixture
def service(pki: Pki) -> Service:
    return Service(pki.qseal)


@pytest.fixture
def signer(pki: Pki, service: Service) -> CallableSigner:
    return CallableSigner(pki.qseal.certificate.public_key, sign_async=service.sign)


@ROWS
def test_what_is_prepared_and_signed_elsewhere_verifies_and_every_row_looks_at_its_own_signature(row, rsa_pki):
    seal = seal_of(row, rsa_pki.qseal)
    prepared = prepare_request(request_for(row), seal=seal, at=AT)
    sealed = prepared.finish(seal.signer.sign(prepared.signing_string))
    assert verdict(sealed, policy_of(row, rsa_pki)) == "holds"
    seal = seal_of(row, rsa_pki.qseal, verify_own=True)
    prepared = prepare_request(request_for(row), seal=seal, at=AT)
    signature = seal.signer.sign(prepared.signing_string)
    assert prepared.finish(signature)
    with refused(ConfigurationError, "seal.own-signature"):
        prepared.finish(bytes([signature[0] ^ 1]) + signature[1:])


def test_a_signer_that_only_awaits_is_probed_and_used_with_await_and_not_to_prepare(pki, service, signer):
    async def seal_two() -> tuple[Message, Message]:
        seal = await Seal.make_async(pki.qseal.certificate, signer)
        return tuple(await asyncio.gather(*(sign_request_async(REQUEST, seal=seal) for _ in range(2))))

    policy = fresh_policy(pki)
    assert [verdict(sealed, policy) for sealed in asyncio.run(seal_two())] == ["holds", "holds"]
    assert service.asked == 3
    seal = asyncio.run(Seal.make_async(pki.qseal.certificate, signer))
    prepared = prepare_request(REQUEST, seal=seal)
    assert service.asked == 4  # the probe of this seal
    assert prepared.signing_string.startswith(b"digest: SHA-256=")
    assert prepared.message is REQUEST


def test_a_signer_that_only_awaits_is_refused_by_the_blocking_calls_and_with_another_key(pki, signer, service):
    with refused(ConfigurationError, "signer.async-only"):
        Seal(pki.qseal.certificate, signer)
    seal = asyncio.run(Seal.make_async(pki.qseal.certificate, signer))
    with refused(ConfigurationError, "signer.async-only"):
        sign_request(REQUEST, seal=seal)
    service.broken = True
    with refused(ConfigurationError, "seal.key-mismatch"):
        asyncio.run(Seal.make_async(pki.qseal.certificate, signer))


@pytest.mark.parametrize("verify_own", [False, True])
def test_a_signature_that_does_not_verify_is_not_sent_if_configured(verify_own, pki, service, signer):
    seal = asyncio.run(Seal.make_async(pki.qseal.certificate, signer, verify_own=verify_own))
    assert verdict(asyncio.run(sign_request_async(REQUEST, seal=seal)), fresh_policy(pki)) == "holds"
    service.broken = True
    if not verify_own:
        assert verdict(asyncio.run(sign_request_async(REQUEST, seal=seal)), fresh_policy(pki)) == "signature.invalid"
        return
    with refused(ConfigurationError, "seal.own-signature"):
        asyncio.run(sign_request_async(REQUEST, seal=seal))


@ROWS
def test_a_row_seals_the_same_request_again_and_with_other_fields_also_twice_where_no_dialect_covers_them(row, rsa_pki):
    seal, policy = seal_of(row, rsa_pki.qseal), policy_of(row, rsa_pki)
    twice = (("X-Tag", "a"), ("x-tag", "b"))
    other = (("psu-id", "b"), ("TPP-Redirect-URI", "https://tpp.example/back"))
    for further in ((), (("PSU-ID", "a"),), (), other, twice):
        sealed = sign_request(request_for(row).with_headers(*further), seal=seal, at=AT)
        assert verdict(sealed, policy) == "holds"


@ROWS
def test_what_sealing_writes_or_covers_must_not_be_there_already(row, rsa_pki):
    seal = seal_of(row, rsa_pki.qseal)
    written = [row.carrier, row.digest_field, *([row.certificate_header] if row.certificate_header else [])]
    written += ["Signature-Input"] if row.format is Format.RFC9421 else []
    covered = [name for name in row.covered_if_present if not name.endswith("*")]
    for names in (*([name] for name in written), *([name, name.upper()] for name in covered)):
        with refused(LocalProtocolError, "seal.header-present"):
            sign_request(request_for(row).with_headers(*((name, "x") for name in names)), seal=seal, at=AT)
