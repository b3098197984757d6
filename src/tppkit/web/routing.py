"""Whether an application routes a request by the path that was judged, or by another that a server or a middleware made of it."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from tppkit._encoding import shown
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.message import Message
from tppkit.web.sources import Source

# gunicorn takes the first for the mount, and any WSGI application may read both as what its server says of the path.
_ROUTE_HEADERS = frozenset({"script-name", "path-info"})


def require_mount(mount: str) -> str:
    """The mount, when it can be one.

    Args:
        mount: the beginning of every path, as `/bank`; empty for an application at the root.

    Raises:
        ConfigurationError: `web.setting`.
    """
    if mount and (not mount.startswith("/") or mount.endswith("/") or not mount.isascii()):
        raise ConfigurationError("web.setting", f"the mount {shown(mount)} does not begin with / and end without")
    return mount


def require_same_route(source: Source, head: Message, *, mount: str) -> str:
    """The path below the mount, as on the wire, of a request that the application would route as it was sent.

    A seal, a role and a requirement are judged by the target as it stood on the wire, a handler is found by what the server made of
    it. These must be the same path and query, and what was taken off the path as the mount must be what is configured.

    Args:
        source: what the server tells.
        head: the same request, with the target as it stood on the wire.
        mount: what the server, or whatever mounts the application, takes off every path.

    Raises:
        FormatError: `message.rerouted`.

    Source: PEP 3333, environ variables; the ASGI specification, HTTP connection scope.
    """
    claims = _ROUTE_HEADERS.intersection([name.lower() for name, _ in head.headers])
    if claims:
        raise _rerouted(f"a header claims to say how the path is routed: {', '.join(sorted(claims))}")
    if source.mount != mount:
        raise _rerouted(f"the application is mounted at {shown(source.mount)}, and SealGate(mount=) is {shown(mount)}")
    path, _, query = head.target.partition("?")
    if source.decoded_target() != (unquote_to_bytes(path.encode("latin-1")), query):
        raise _rerouted(f"the path or query that the application sees is not that of the target {shown(head.target)}")
    below = path.removeprefix(mount)
    if mount and (
        below == path or below[:1] not in ("", "/")
    ):  # %62ank is the mount too, but nobody has to write it so
        raise _rerouted(
            f"the target {shown(head.target)} does not begin with the mount {shown(mount)} as it is written"
        )
    return below


def _rerouted(reason: str) -> FormatError:
    return FormatError("message.rerouted", reason)
