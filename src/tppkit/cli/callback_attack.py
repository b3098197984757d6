"""Send the list of nasty callbacks to a receiver on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import click
from cryptography.hazmat.primitives.asymmetric import ec

from tppkit.callbacks import CallbackAddress, CallbackKind, ReceivedCallback
from tppkit.callbacks.attacks import ATTACKS, Attack, Target
from tppkit.cli.callback_sending import TIMEOUT_S, Place, parse_place, readdress, send_message
from tppkit.cli.output import DOES_NOT_HOLD, HOLDS, print_json, say
from tppkit.errors import TransportError
from tppkit.protocol.legacy import AccessGranted

_ACCESS = AccessGranted(token="0123456789abcdefABCDEF", exp="2030-01-01 00:00:00").to_wire()  # noqa: S106


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
    """Send each attack and yield how it was answered; none behind a good callback that is refused, for they would show nothing.

    Args:
        url: where the receiver listens, `http://` on this machine; without a path, at the path of the signed address.
        key: a private key whose public key the receiver believes.
        signed_url: the address that is signed; `url` with https by default.
        body: a body that the address takes; an access that was granted by default.

    Raises:
        ConfigurationError: `callback.place`, it is not HTTP on this machine; `callback.address-unusable`, nobody could have the
            signed address.
        TransportError: `attack.unreachable`, nothing listens there.
    """
    place = parse_place(url)
    own = f"https://{urlsplit(url).netloc.lower()}{place.target or '/'}"
    target = Target(
        key=key,
        stranger=ec.generate_private_key(ec.SECP256R1()),
        address=CallbackAddress(own if signed_url is None else signed_url, CallbackKind.OTHER),
        body=_ACCESS if body is None else body,
        name=uuid4().hex[:12],
        path=place.target,
    )
    try:
        socket.create_connection((place.host, place.port), timeout=TIMEOUT_S).close()
    except OSError as e:
        raise TransportError("attack.unreachable", f"nothing listens on {place.authority}: {e.strerror}") from e
    return _results(target, place._replace(target=""))  # each attack has its own


def _results(target: Target, place: Place) -> Iterator[Result]:
    good, *attacks = ATTACKS
    result = Result(good, _send_all(good.make(target), place))
    yield result
    if result.passed:
        yield from (Result(attack, _send_all(attack.make(target), place)) for attack in attacks)


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
            _tell("pass" if result.passed else "FAIL", result.attack, status)
    passed = sum(result.passed for result in done)
    left = ATTACKS[len(done) :]
    code = "attack.not-judged" if left else "attack.failed" if passed < len(done) else None
    if as_json:
        rows = [_row(result.attack, result.status, passed=result.passed) for result in done]
        rows += [_row(attack, None, passed=None) for attack in left]
        print_json({"verdict": "fails" if code else "holds", "code": code, "attacks": rows})
    else:
        for attack in left:
            _tell("----", attack, "not judged")
        click.echo(f"{passed} of {len(ATTACKS)} passed")
        if left:
            say("the good callback was not taken, so no refusal shows anything: look at key, --signed-url and --body")
    return DOES_NOT_HOLD if code else HOLDS


def _tell(verdict: str, attack: Attack, status: str) -> None:
    click.echo(f"{verdict}  {attack.name:<22} {status:<10} {attack.tests}")


def _row(attack: Attack, status: int | None, *, passed: bool | None) -> dict[str, Any]:
    return {
        "name": attack.name,
        "tests": attack.tests,
        "expected": attack.answer.value,
        "status": status,
        "passed": passed,
    }
