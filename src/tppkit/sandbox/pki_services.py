"""The services of a test PKI over HTTP: OCSP, revocation lists, time stamps, issuing certificates and trusted lists.

`POST /ocsp` and `GET /ocsp/{base64}` (RFC 6960 appendix A), `GET /{authority}.crl` (RFC 5280 section 4.2.1.13),
`GET /{authority}.der`, `POST /tsa` (RFC 3161 section 3.4), and the trusted lists under their file names.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tppkit._clock import utc_now
from tppkit._files import read_bounded
from tppkit.errors import ConfigurationError, FormatError, TppkitError
from tppkit.sandbox.uvicorn_server import QuietServer, listen, make_config, serve_until_stopped
from tppkit.testpki.files import TRUSTED_LISTS
from tppkit.testpki.folder import PkiFolder, open_pki
from tppkit.testpki.manifest import MANIFEST, MAX_LIST_BYTES, file_inside
from tppkit.testpki.ocsp import MALFORMED_REQUEST, MAX_REQUEST_BYTES, answer_ocsp, ocsp_request_of_path, write_refusal
from tppkit.testpki.timestamps import answer_timestamp
from tppkit.testpki.trusted_lists import LIST_FILES
from tppkit.web.sources import read_message

_OCSP, _CRL, _TSP = "application/ocsp-response", "application/pkix-crl", "application/timestamp-reply"
_CERTIFICATE, _XML = "application/pkix-cert", "application/vnd.etsi.tsl+xml"
_ZERO, _RENEW_EVERY = timedelta(0), timedelta(hours=1)  # how often lists that end soon are renewed


class PkiServices:
    """An ASGI application (`app`) that serves the test PKI in a folder. Certificates and revocations that are added later take effect.

    Args:
        folder: The folder that `pki create` made.
        now: Returns the current time, aware.

    Raises:
        ConfigurationError: Those of `testpki.open_pki`.
    """

    def __init__(self, folder: Path, *, now: Callable[[], datetime]) -> None:
        self._path = folder
        self._now = now
        self._opened, self._stamp = self._open()
        self._opened_at = now()
        self.app = Starlette(
            routes=[
                Route("/ocsp", self._post_ocsp, methods=["POST"]),
                Route("/ocsp/{request:path}", self._get_ocsp, methods=["GET"]),
                Route("/tsa", self._timestamp, methods=["POST"]),
                Route("/{authority}.crl", self._crl, methods=["GET"]),
                Route("/{authority}.der", self._certificate, methods=["GET"]),
                Route("/{name}.xml", self._list, methods=["GET"]),
            ],
            exception_handlers={TppkitError: _refuse},
        )

    @property
    def _folder(self) -> PkiFolder:
        now = self._now()
        if _stamp(self._path) != self._stamp or not _ZERO <= now - self._opened_at < _RENEW_EVERY:
            self._opened, self._stamp = self._open()
            self._opened_at = now
        return self._opened

    def _open(self) -> tuple[PkiFolder, tuple[int, int]]:
        """Open the folder, and renew lists that end soon if they can be written."""
        try:
            open_pki(self._path).renew(now=self._now(), only_due=True)
        except ConfigurationError as e:
            if e.code != "file.unwritable":
                raise
        stamp = _stamp(self._path)  # taken before reading, so that a concurrent change is detected at the next request
        return open_pki(self._path), stamp

    async def _post_ocsp(self, request: Request) -> Response:
        return self._answer_ocsp(await _body(request))

    async def _get_ocsp(self, request: Request) -> Response:
        try:
            return self._answer_ocsp(ocsp_request_of_path(request.path_params["request"]))
        except FormatError:  # as for a POST (RFC 6960 section 2.3)
            return Response(write_refusal(MALFORMED_REQUEST), media_type=_OCSP)

    def _answer_ocsp(self, request: bytes) -> Response:
        return Response(answer_ocsp(self._folder.pki, request, at=self._now()), media_type=_OCSP)

    async def _timestamp(self, request: Request) -> Response:
        serial = secrets.randbits(63) | 1
        answer = answer_timestamp(self._folder.pki, await _body(request), at=self._now(), serial=serial)
        return Response(answer, media_type=_TSP)

    async def _crl(self, request: Request) -> Response:
        for issuer in self._folder.pki.issuers:
            if issuer.label == request.path_params["authority"]:
                return _file(self._path, f"{issuer.label}.crl", media_type=_CRL)
        return _not_found()

    async def _certificate(self, request: Request) -> Response:
        for issuer in self._folder.pki.issuers:
            if issuer.label == request.path_params["authority"]:
                return Response(issuer.certificate.der, media_type=_CERTIFICATE)
        return _not_found()

    async def _list(self, request: Request) -> Response:
        name = f"{request.path_params['name']}.xml"
        return _file(self._path / TRUSTED_LISTS, name, media_type=_XML) if name in LIST_FILES else _not_found()


def _file(folder: Path, name: str, *, media_type: str) -> Response:
    """Return a file of the folder itself, unchanged."""
    path = file_inside(folder, name)
    if not path.is_file():
        return _not_found()
    return Response(read_bounded(path, max_bytes=MAX_LIST_BYTES), media_type=media_type)


class PkiServer:
    """A server of `PkiServices` on a loopback port.

    Args:
        folder: The folder that `pki create` made.
        port: 0 chooses a free port.

    Raises:
        ConfigurationError: `port.unavailable`, and those of `PkiServices`.
    """

    def __init__(self, folder: Path, *, port: int) -> None:
        services = PkiServices(folder, now=utc_now)
        bound = listen("127.0.0.1", port)
        base = f"http://localhost:{bound.getsockname()[1]}"
        self.addresses = {
            "ocsp_url": f"{base}/ocsp", "tsa_url": f"{base}/tsa", "crl_url": f"{base}/issuing-ca-qwac.crl",
            "lists_url": f"{base}/{LIST_FILES[0]}", "pki": str(folder),
        }  # fmt: skip
        self._servers = ((QuietServer(make_config(services.app)), bound),)

    async def serve_until_stopped(self, *, on_ready: Callable[[], None]) -> None:
        """Serve until the process gets SIGINT or SIGTERM; `on_ready` is called once the server answers."""
        await serve_until_stopped(self._servers, on_ready=on_ready)


async def _body(request: Request) -> bytes:
    message = await read_message(request.scope, request.receive, max_body_bytes=MAX_REQUEST_BYTES)
    return message.body


async def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, ConfigurationError):  # the client must not see details of the folder
        return PlainTextResponse("the folder of the test PKI cannot be used now\n", status_code=503)
    status = 413 if isinstance(error, TppkitError) and error.code == "message.too-large" else 400
    return PlainTextResponse(f"{error}\n", status_code=status)


def _not_found() -> Response:
    return PlainTextResponse("this test PKI has no such file\n", status_code=404)


def _stamp(folder: Path) -> tuple[int, int]:
    """Return a value that changes whenever the manifest is replaced, which each change of the folder does."""
    file = folder / MANIFEST
    status = file.stat() if file.exists() else None
    return (status.st_mtime_ns, status.st_ino) if status else (0, 0)
