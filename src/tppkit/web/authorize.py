"""May the holder of this certificate make this call: the roles of the certificate against the table of endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tppkit.certificates import EidasCertificate
from tppkit.certificates.rules import first_error
from tppkit.errors import CertificateRejected, FormatError, LocalProtocolError
from tppkit.protocol.endpoint import Endpoint
from tppkit.protocol.psd2 import PSD2
from tppkit.protocol.psd2.rules import require_role


@dataclass(frozen=True, slots=True)
class Authorization:
    """Allowed or denied, and why. True only when allowed.

    Attributes:
        allowed: the call may be made.
        endpoint: the row of the endpoint, None when no endpoint has this method and path.
        required_roles: the roles that the endpoint asks for, all of them; empty when it asks for none or is unknown.
        roles: the PSD2 roles of the certificate, by their object identifiers.
        methods: the methods that the path has; empty when no endpoint has it.
        code: None when allowed, else `endpoint.unknown`, `endpoint.method`, `role.missing` or the code of what is malformed.
        message: the reason, for people.
    """

    allowed: bool
    endpoint: Endpoint[Any, Any] | None
    required_roles: tuple[str, ...]
    roles: tuple[str, ...]
    methods: tuple[str, ...]
    code: str | None
    message: str

    def __bool__(self) -> bool:
        """Allowed."""
        return self.allowed


def authorize(certificate: EidasCertificate, method: str, path: str) -> Authorization:
    """Whether the roles of a certificate allow a call of the PSD2 interface; never raises on what is asked.

    It asks the roles only. That the certificate is a QWAC, valid and believed, is proven before, by `QwacPolicy.verify`.

    Args:
        certificate: the QWAC of the connection.
        method: HTTP method, upper case.
        path: the path as on the wire, from the host's root, with or without query; only a path that is exactly an endpoint's is known.

    Source: PSD2 document, part A section 5 rule 2.
    """
    endpoint, code, message = None, None, ""
    try:
        endpoint = PSD2.find(method, path).row
        require_authorized(certificate, endpoint)
        message = (
            f"{method} {endpoint.path} needs the role {endpoint.role}, and the certificate has it"
            if endpoint.role
            else f"{method} {endpoint.path} needs no role"
        )
    except (FormatError, LocalProtocolError, CertificateRejected) as e:
        code, message = e.code, e.message
    required = (endpoint.role,) if endpoint is not None and endpoint.role is not None else ()
    return Authorization(code is None, endpoint, required, certificate.roles, PSD2.methods(path), code, message)


def require_authorized(certificate: EidasCertificate, endpoint: Endpoint[Any, Any]) -> None:
    """Check that a certificate is well formed and has the endpoint's role.

    Raises:
        CertificateRejected: `role.missing`; the code of what is malformed, because roles that were read from it are a guess.

    Source: PSD2 document, part A section 5 rule 2.
    """
    fault = first_error(certificate.findings)
    if fault is not None:
        message = f"the certificate of {certificate.subject} is malformed: {fault.message}"
        raise CertificateRejected(fault.code, message, clause=fault.clause, findings=certificate.findings)
    require_role(endpoint, certificate.roles)
