"""Where a request says that it was sent, by its Host; and the start line as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tppkit.errors import FormatError
from tppkit.httpsig.address import split_address
from tppkit.httpsig.components import Origin, parse_origin
from tppkit.httpsig.message import Message, is_field_name
from tppkit.seals.diagnose.form import Fault, fault


def as_should_be_sent(message: Message) -> tuple[Message, tuple[Fault, ...]]:
    """A request with the method in capitals, and path and query alone in its start line; and what else stood there.

    Source: RFC 9110 section 9.1; RFC 9112 section 3.2.2.
    """
    faults: list[Fault] = []
    if message.method != message.method.upper() and is_field_name(message.method):
        faults.append(fault("method-sent-lower-case", f"it is {message.method[:20]}"))
        message = message._replace(method=message.method.upper())
    if message.target[:8].lower().startswith(("http://", "https://")):
        with suppress(FormatError):
            host, target = split_address(message.target)
            faults.append(fault("target-absolute", f"it names the host {host[:100]} before path and query"))
            message = message._replace(target=target)
    return message, tuple(faults)


def origins_of(message: Message) -> Iterator[Origin]:
    """By its Host, over https and over http."""
    for host in message.values("host")[:1]:
        for scheme in ("https", "http"):
            with suppress(FormatError):
                yield parse_origin(f"{scheme}://{host}")
