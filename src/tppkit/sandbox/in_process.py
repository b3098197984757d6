"""A sandbox in this process, with the hosts and handlers of the served sandbox, but without sockets.

with Sandbox() as sandbox:
    client = sandbox.bank.client(roles=["PSP_AI"])
    sandbox.bank.approve_consent(client.create_consent(consent).consent_id)
    order = sandbox.gateway.client().create_order(request)
    sandbox.gateway.pay(order.id, card="4111111111111111")
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypedDict

import httpx

from tppkit._clock import utc_now
from tppkit._files import FilePath, make_folder
from tppkit.client.answer_seals import Answers
from tppkit.client.connections import DEFAULT_TIMEOUT_S, client_options
from tppkit.client.identity import Identity
from tppkit.client.psd2 import AsyncPsd2Client, Psd2Client
from tppkit.errors import TransportError
from tppkit.evidence import EvidenceRecord
from tppkit.evidence.archive import read_lines
from tppkit.httpsig.components import parse_origin
from tppkit.protocol.control import read_control_answer
from tppkit.protocol.psd2 import BankRules, Persona
from tppkit.sandbox.conformance import Report
from tppkit.sandbox.dialect import demanded_headers, key_id_of, seal_key_kind, sends_certificate
from tppkit.sandbox.gateway.in_process import Gateway
from tppkit.sandbox.host import Host
from tppkit.sandbox.sandbox import ARCHIVE, SandboxHosts, SandboxSettings
from tppkit.sandbox.server import LISTENERS, Addresses, observed_app
from tppkit.sandbox.thread import in_thread
from tppkit.sandbox.transport import SandboxTransport, submit
from tppkit.seals import Seal, SealProfile
from tppkit.testpki import Pki, certificate_pem, make_pki, make_provider
from tppkit.testpki.files import files_of, revocation_lists, write_files
from tppkit.trust import Anchors, make_anchors

__all__ = ["Gateway", "Sandbox"]

_FIRST_PORT = 8443  # nothing listens there
_FLUSH_S = 10.0


class _AnswerOptions(TypedDict, total=False):
    answers: Answers
    answer_anchors: Anchors


class Sandbox:
    """A bank and a payment gateway with a test PKI, in a temporary folder that `close()` removes.

    Certificates, seals, roles and evidence work as in the served sandbox. Only HTTP/1.1 and TLS are left out: a client presents its
    QWAC without a handshake. The hosts run in their own event loop and thread, so every method may be called from any thread, and from
    asyncio too.

    Args:
        pki: issues the certificates of clients and bank; by default one for the whole process.
        seed: makes ids reproducible; by default they are random.
        persona: how the bank differs from the document: a `Persona`, the name of a shipped one (`berlin-group`), or the file of one.
        rules: the bank's rules, for example its instant cap and how long an execution takes; by default those of the persona.
        profile: the dialect of seals or its name in `PROFILES`; by default that of the persona.
        prefix: what the paths of the PSD2 interface begin with; by default what the persona has.
        sign_answers: the bank signs its answers, as the persona has it, else in the form `rfc9421`. If it signs them, the clients of
            this object require it.

    Attributes:
        pki: issues certificates.
        addresses: the addresses and keys, which only clients of this object can use.
        directory: the temporary folder; its folder `pki` has the bank's part of the PKI.
        gateway: the payment gateway; the other methods of this object are the bank's.

    Example:
        with Sandbox() as bank:
            client = bank.client(roles=["PSP_PI"])
            initiated = client.initiate_payment(payment)
            bank.approve(initiated.payment_id)
            final = client.wait_for_payment(initiated.payment_id)
    """

    def __init__(
        self, *, pki: Pki | None = None, seed: int | None = None, persona: Persona | FilePath = "document",
        rules: BankRules | None = None, profile: SealProfile | str | None = None, prefix: str | None = None,
        sign_answers: bool = False,
    ) -> None:  # fmt: skip
        self.pki = _process_pki() if pki is None else pki
        self._identities: dict[tuple[tuple[str, ...], str | None], Identity] = {}
        self._issuing = threading.Lock()
        with ExitStack() as opened:
            self.directory = Path(opened.enter_context(TemporaryDirectory(prefix="tppkit-sandbox-")))
            folder = self.directory / "pki"
            _write_pki(self.pki, folder)
            settings = SandboxSettings(
                self.directory, pki=folder, seed=seed, persona=persona, rules=rules, profile=profile, prefix=prefix,
                sign_answers=sign_answers,
            )  # fmt: skip
            urls = {row.name: _url(row.offset, tls=row.tls(settings) is not None) for row in LISTENERS}
            self._hosts = opened.enter_context(SandboxHosts(settings, urls=urls, seals_by_id={}))
            self.addresses = Addresses.of(self._hosts, urls)
            self.gateway = Gateway(self, project_id=self.addresses.project_id, api_key=self.addresses.api_key)
            self._apps = {urls[row.name]: observed_app(row, self._hosts) for row in LISTENERS}
            apps = {row.name: row.app(self._hosts) for row in LISTENERS}
            self._interfaces = {urls[name]: app.interface.name for name, app in apps.items() if isinstance(app, Host)}
            opened.enter_context(in_thread(self._serve, stop=self._stop))
            self._opened = opened.pop_all()

    @property
    def bank(self) -> Self:
        """This object, for code that uses both `sandbox.bank` and `sandbox.gateway`."""
        return self

    def identity(self, *, roles: Sequence[str] | None = None, organization: str | None = None) -> Identity:
        """Return a provider's certificates and keys, issued by the PKI; the same ones for the same arguments.

        Args:
            roles: names of TS 119 495, for example `["PSP_PI", "PSP_AI"]`; by default those of the PKI's provider.
            organization: the organizationIdentifier, for example `PSDDE-BAFIN-123456`; by default that of the PKI's provider.

        Raises:
            ConfigurationError: `pki.*`.
        """
        chosen = tuple(self.pki.provider.roles if roles is None else roles)
        with self._issuing:
            found = self._identities.get((chosen, organization))
            if found is None:
                found = self._identities[chosen, organization] = self._issue(chosen, organization)
        return found

    def client(self, *, roles: Sequence[str] | None = None, organization: str | None = None) -> Psd2Client:
        """Make a client for threads. While it waits between polls, the bank's clock moves and no real time passes.

        Arguments and errors are those of `identity`.
        """
        identity = self.identity(roles=roles, organization=organization)
        http = httpx.Client(transport=self.transport(identity), **client_options(identity, timeout_s=DEFAULT_TIMEOUT_S))
        return Psd2Client(
            self.addresses.psd2_url, identity=identity, persona=self._persona, http=http, sleep=self._sleep, clock=self._seconds,
            **self._answers,
        )  # fmt: skip

    def async_client(self, *, roles: Sequence[str] | None = None, organization: str | None = None) -> AsyncPsd2Client:
        """Make a client for asyncio, in any event loop; it waits like that of `client`. Arguments are those of `identity`."""
        identity = self.identity(roles=roles, organization=organization)
        http = httpx.AsyncClient(
            transport=self.transport(identity), **client_options(identity, timeout_s=DEFAULT_TIMEOUT_S)
        )
        return AsyncPsd2Client(
            self.addresses.psd2_url, identity=identity, persona=self._persona, http=http, sleep=self._sleep_async,
            clock=self._seconds, **self._answers,
        )  # fmt: skip

    def fault(
        self, name: str, *, interface: str = "psd2", count: int = 1, endpoint: str | None = None, **further: Any
    ) -> None:
        """Request a fault of an interface: what its next requests get instead of their answers.

        Args:
            name: a name of `INTERFACE_FAULTS`, for example `status-500-after`.
            interface: `psd2`, `legacy` (its test and live host), `gateway` or `vault`.
            count: for so many requests, or handshakes.
            endpoint: for requests of this row only, for example `initiate_payment`.
            further: `delay_s` of `late` and `slow-body`: no real time passes; if a client waits less, it gets no answer.

        Raises:
            RequestRefused: `fault.unknown`, `model.invalid` as `peer_code`; the message lists the names.
        """
        self.control(
            "POST", "/faults", {"name": name, "interface": interface, "count": count, "endpoint": endpoint, **further}
        )

    def clear_faults(self) -> None:
        """Remove all requested faults."""
        self.control("DELETE", "/faults")

    def transport(self, identity: Identity | None = None) -> SandboxTransport:
        """Make a transport for an httpx client of your own.

        Args:
            identity: the client certificate for the PSD2 host; None for a browser on the approval pages.
        """
        peer: Callable[[], Sequence[str]] = tuple
        if identity is not None:
            peer = partial(_chain, identity)
        return SandboxTransport(self._apps, self._loop, peer=peer, is_expired=self._is_expired)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Call the control host, which decides for the bank's customers and moves its clock.

        Args:
            method: for example `POST`.
            path: for example `/clock/advance`.
            body: sent as JSON; None sends no body.

        Returns:
            The JSON of the answer.

        Raises:
            RequestRefused: the call is refused.
            TransportError: `transport.failed`, the sandbox is closed.
        """
        try:
            with httpx.Client(transport=self.transport(), trust_env=False) as http:
                answer = http.request(method, self.addresses.control_url + path, json=body)
        except httpx.TransportError as e:
            raise TransportError("transport.failed", str(e)) from e
        return read_control_answer(answer.status_code, answer.content, call=f"{method} {path}")

    def approve(self, payment_id: str, *, customer: str | None = None, iban: str | None = None) -> None:
        """Approve a payment as a customer of the bank does.

        Args:
            payment_id: id of a payment of any provider.
            customer: id of the customer, from `GET /customers` of the control host; by default the first who can approve.
            iban: IBAN of the paying account; by default the first that can pay.

        Raises:
            RequestRefused: `payment.unknown`, `payment.decided`, `account.unfit`, `account.funds` as `peer_code`.
        """
        self._decide(f"/payments/{payment_id}/approve", customer=customer, iban=iban)

    def decline(self, payment_id: str) -> None:
        """Decline a payment. Arguments and errors are those of `approve`."""
        self._decide(f"/payments/{payment_id}/decline")

    def approve_consent(self, consent_id: str, *, customer: str | None = None, iban: str | None = None) -> None:
        """Approve a consent, which is bound to the account. Arguments are those of `approve`.

        Raises:
            RequestRefused: `consent.unknown`, `consent.decided`, `account.unfit` as `peer_code`.
        """
        self._decide(f"/consents/{consent_id}/approve", customer=customer, iban=iban)

    def decline_consent(self, consent_id: str) -> None:
        """Decline a consent. Errors are those of `approve_consent`."""
        self._decide(f"/consents/{consent_id}/decline")

    def revoke_consent(self, consent_id: str) -> None:
        """Revoke a consent at the bank; one that has ended stays as it is. Errors are those of `approve_consent`."""
        self._decide(f"/consents/{consent_id}/revoke")

    def now(self) -> datetime:
        """Return the bank's virtual time, aware UTC."""
        return self._hosts.clock.now()

    def advance(self, by: timedelta) -> datetime:
        """Move the bank's virtual time forward and return it. Certificates and seals are verified at real time.

        Raises:
            RequestRefused: the time is negative, or more than ten years in all.
        """
        self.control("POST", "/clock/advance", {"seconds": by.total_seconds()})
        return self.now()

    def report(self) -> Report:
        """Return the rules of the documents that clients broke since the start.

        Raises:
            TransportError: `transport.failed`, the sandbox is closed.
        """
        return Report.from_object(self.control("GET", "/report"))

    def reset(self) -> None:
        """Put the bank back to its start, with the same PKI, keys and settings; its clock shows real time again.

        Raises:
            RequestRefused: `sandbox.busy` or `archive.unusable` as `peer_code`.
            TransportError: `transport.failed`, the sandbox is closed.
        """
        self.control("POST", "/reset")

    def evidence(self) -> list[EvidenceRecord]:
        """Return the bank's records of sealed requests, oldest first.

        Raises:
            TransportError: `transport.failed`, the sandbox is closed; `transport.timeout`, records cannot be archived.
        """
        try:
            submit(self._hosts.evidence.flush(), self._loop).result(_FLUSH_S)
        except ConnectionError as e:
            raise TransportError("transport.failed", str(e)) from e
        except TimeoutError as e:
            raise TransportError("transport.timeout", "records cannot be archived") from e
        return [EvidenceRecord.from_line(line) for _, line in read_lines(self.directory / ARCHIVE)]

    def close(self) -> None:
        """Stop the bank and remove its folder."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _issue(self, roles: Sequence[str], organization: str | None) -> Identity:
        provider = make_provider(like=self.pki.provider, roles=roles, organization_identifier=organization)
        label = "-".join((provider.organization_identifier.text, *roles))
        qwac = self.pki.issue_qwac(provider, label=f"qwac-{label}")
        dialect = self._hosts.settings.dialect
        qseal = self.pki.issue_qseal(
            provider, label=f"qseal-{label}", key=seal_key_kind(dialect, like=self.pki.qseal.certificate)
        )
        seal = Seal.for_key(
            qseal.certificate, qseal.key, profile=dialect, key_id=key_id_of(dialect, qseal.certificate),
            origin=parse_origin(self.addresses.psd2_url),
        )  # fmt: skip
        if not sends_certificate(dialect):
            self._hosts.known_seals[seal.key_id] = qseal.certificate
        return Identity(
            qwac.certificate, qwac.key, chain=qwac.chain, seal=seal,
            server_anchors=[self.pki.root.certificate],
        )  # fmt: skip

    @property
    def _persona(self) -> Persona:
        """The bank's persona, with the headers that a seal of its dialect must cover and that no client writes by itself."""
        settings = self._hosts.settings
        return settings.bank.requiring(demanded_headers(settings.dialect))

    @property
    def _answers(self) -> _AnswerOptions:
        if not self._hosts.settings.bank.signs_answers:
            return {}
        return {"answers": "required", "answer_anchors": make_anchors(self.pki.authorities)}

    def _is_expired(self, origin: str) -> bool:
        return self._hosts.faults.take_for_handshake(self._interfaces.get(origin, ""))

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._hosts.running():
            on_ready()
            await self._stopping.wait()

    def _decide(self, path: str, **choice: str | None) -> None:
        self.control("POST", path, {name: value for name, value in choice.items() if value is not None})

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)

    def _seconds(self) -> float:
        return self.now().timestamp()

    def _sleep(self, seconds: float) -> None:
        self.advance(timedelta(seconds=seconds))

    async def _sleep_async(self, seconds: float) -> None:
        await asyncio.to_thread(self._sleep, seconds)


def _chain(identity: Identity) -> list[str]:
    return [certificate_pem(certificate).decode() for certificate in (identity.qwac, *identity.chain)]


def _url(offset: int, *, tls: bool) -> str:
    return f"{'https' if tls else 'http'}://localhost:{_FIRST_PORT + offset}"


def _write_pki(pki: Pki, folder: Path) -> None:
    """Write only the files that a bank reads; writing the whole PKI takes three times as long."""
    make_folder(folder)
    for issued in filter(None, (*pki.issuers, pki.server, pki.bank_seal)):
        write_files(folder, files_of(pki, issued))
    write_files(folder, (file for _, file in revocation_lists(pki, pki.issuers, at=pki.not_before)))


@cache
def _process_pki() -> Pki:
    return make_pki(at=utc_now())
