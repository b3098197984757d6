"""Send the list of nasty callbacks to a receiver on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

import click
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.callbacks import ReceivedCallback
from tppkit.callbacks.attacks import ATTACKS, Attack, Target
from tppkit.cli.callback_sending import TIMEOUT_S, Place, parse_place, readdress, send_message
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, print_json
from tppkit.errors import TransportError
from tppkit.protocol.legacy import AccessGranted

_ACCESS = AccessGranted("0123456789abcdefABCDEF", datetime(2030, 1, 1, tzinfo=UTC)).to_wire()


class Result(NamedTuple):
    """How a receiver answered an attack; `status` is None when it did not answer in HTTP."""

    attack: Attack
    status: int | None

    @property
    def passed(self) -> bool:
        """Whether the answer is of the right class."""
        return self.status is not None and self.attack.answer.fits(self.status)


def run_attacks(
    url: str, *, key: ec.EllipticCurvePrivateKey, signed_url: str | None, body: bytes | None
) -> Iterator[Result]:
    """Send each attack and yield how it was answered.

    Args:
        url: where the receiver listens, `http://` on this machine.
        key: a private key whose public key the receiver believes.
        signed_url: the address that is signed; `url` with https by default.
        body: a body that the address takes; an access that was granted by default.

    Raises:
        ConfigurationError: `callback.place`, it is not HTTP on this machine.
        TransportError: `attack.unreachable`, nothing listens there.
    """
    place = parse_place(url)._replace(target="")  # each attack has its own
    target = Target(
        key=key,
        stranger=ec.generate_private_key(ec.SECP256R1()),
        url=signed_url or "https" + url.removeprefix("http"),
        body=_ACCESS if body is None else body,
        name=uuid4().hex[:12],
    )
    try:
        socket.create_connection((place.host, place.port), timeout=TIMEOUT_S).close()
    except OSError as e:
        raise TransportError("attack.unreachable", f"nothing listens on {place.authority}: {e.strerror}") from e
    return (Result(attack, _send_all(attack.make(target), place)) for attack in ATTACKS)


def _send_all(calls: tuple[ReceivedCallback, ...], place: Place) -> int | None:
    return [_send(call, place) for call in calls][-1]


def _send(call: ReceivedCallback, place: Place) -> int | None:
    own_host = next((value for name, value in call.headers if name == "Host"), None)
    try:
        return send_message(readdress(call, place=place, host=own_host).to_wire(), place=place).status
    except TransportError:
        return None


def print_results(results: Iterator[Result], *, as_json: bool) -> int:
    """One line an attack, as it is answered, and a summary; the exit code."""
    done = []
    for result in results:
        done.append(result)
        if not as_json:
            status = "no answer" if result.status is None else str(result.status)
            verdict = "pass" if result.passed else "FAIL"
            click.echo(f"{verdict}  {result.attack.name:<22} {status:<9} {result.attack.tests}")
    failed = [result for result in done if not result.passed]
    if as_json:
        print_json(
            {
                "verdict": "fails" if failed else "holds",
                "code": "attack.failed" if failed else None,
                "attacks": [
                    {
                        "name": attack.name, "tests": attack.tests, "expected": attack.answer.value, "status": status,
                        "passed": result.passed,
                    }
                    for result in done for attack, status in [result]
                ],
            }
        )  # fmt: skip
    else:
        click.echo(f"{len(done) - len(failed)} of {len(done)} passed")
    return DOES_NOT_HOLD if failed else HOLDS
