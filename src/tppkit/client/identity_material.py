"""The certificates and keys of an identity: how they are read, and whether they fit each other, are valid, and may replace others."""

from __future__ import annotations

import binascii
import inspect
import logging
import os
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._files import FilePath, read_bounded
from tppkit.certificates import EidasCertificate
from tppkit.certificates.differences import public_key_info
from tppkit.certificates.files import CertificateSource, parse_certificates, read_certificates
from tppkit.certificates.pkcs12_files import is_pkcs12
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity, TppkitError
from tppkit.httpsig import Signer, load_private_key, parse_pkcs12
from tppkit.seals import Seal
from tppkit.seals.seal import SealOptions, require_seal_type
from tppkit.trust.path.strength import is_signed_by

_LOG = logging.getLogger("tppkit.client")

PARTS = ("QWAC", "QWAC_KEY", "QSEAL", "QSEAL_KEY")
Password = bytes | str | Callable[[], bytes | str] | None
SealSigner = Signer | Callable[[EidasCertificate], Signer] | None


@dataclass(frozen=True, slots=True)
class IdentityCertificates:
    """The certificates of an identity, and the authorities that it trusts.

    Attributes:
        qwac: the website certificate.
        chain: authorities to send with it, the issuer first.
        qseal: the seal certificate; None without a seal.
        server_anchors: authorities of the bank's server certificate; None: the system's.
    """

    qwac: EidasCertificate
    chain: tuple[EidasCertificate, ...]
    qseal: EidasCertificate | None
    server_anchors: tuple[EidasCertificate, ...] | None

    def require_fit(self, qwac_key: PrivateKeyTypes) -> None:
        """Check that the key belongs to the QWAC, the QWAC has the right type, and the QSealC is of the same organisation.

        Raises:
            ConfigurationError: `identity.key-mismatch`, `identity.qc-type`, `identity.other-organisation`.
        """
        qwac, qseal = self.qwac, self.qseal
        if qwac_key.public_key() != qwac.public_key:
            raise ConfigurationError("identity.key-mismatch", f"the private key is not the key of {qwac.subject}")
        if qwac.qc.types and "web" not in qwac.qc.types:
            raise ConfigurationError(
                "identity.qc-type", f"{qwac.subject} is not a QWAC: its QcType is {', '.join(qwac.qc.types)}, not web"
            )
        if qseal is not None and qseal.organization_identifier != qwac.organization_identifier:
            raise ConfigurationError(
                "identity.other-organisation",
                f"the QWAC has the organizationIdentifier {qwac.organization_identifier or 'none'}, "
                f"the QSealC {qseal.organization_identifier or 'none'}",
            )

    def check_validity(self, at: datetime, ahead: timedelta) -> Iterator[Finding]:
        """Check the validity of QWAC, its chain and QSealC; warn if one expires within `ahead`."""
        named = [("QWAC", self.qwac), *(("QWAC's authority", authority) for authority in self.chain)]
        if self.qseal is not None:
            named.append(("QSealC", self.qseal))
        for name, certificate in named:
            left = certificate.not_after - at
            values = MappingProxyType(
                {"certificate": name, "not_after": certificate.not_after.isoformat(), "days": str(left.days)}
            )
            what = f"the {name} {certificate.subject}"
            if at < certificate.not_before:
                message = f"{what} is not valid before {certificate.not_before.isoformat()}"
                yield Finding("identity.not-yet-valid", Severity.ERROR, message, values=values)
            elif left < timedelta(0):
                message = f"{what} expired on {certificate.not_after.isoformat()}"
                yield Finding("identity.expired", Severity.ERROR, message, values=values)
            elif left < ahead:
                message = f"{what} expires on {certificate.not_after.isoformat()}, in {left.days} days"
                yield Finding("identity.expires", Severity.WARNING, message, values=values)

    def require_renewal_of(self, present: IdentityCertificates, at: datetime) -> None:
        """Check that these may replace the present certificates.

        Raises:
            ConfigurationError: `identity.not-valid`, `identity.other-organisation`, `identity.seal-lost`.
        """
        for finding in self.check_validity(at, timedelta(0)):
            raise ConfigurationError("identity.not-valid", finding.message)
        organisation, before = self.qwac.organization_identifier, present.qwac.organization_identifier
        if organisation != before:
            raise ConfigurationError(
                "identity.other-organisation", f"the renewed QWAC is of {organisation}, the present one of {before}"
            )
        if present.qseal is not None and self.qseal is None:
            raise ConfigurationError(
                "identity.seal-lost", f"the renewed identity of {organisation} has no seal, but the present one has"
            )


@dataclass(frozen=True, slots=True)
class Passwords:
    """The passwords of encrypted keys and PKCS#12; each is text, bytes or a function that returns them.

    Attributes:
        both: for a key without its own password.
        qwac: for the QWAC's key.
        qseal: for the seal's key.
    """

    both: Password = field(default=None, repr=False)
    qwac: Password = field(default=None, repr=False)
    qseal: Password = field(default=None, repr=False)

    def ask(self) -> dict[str, bytes | str | None]:
        """Return the passwords by the names of the parts. Each function is called once."""
        asked = {name: _ask(own) for name, own in (("QWAC", self.qwac), ("QSEAL", self.qseal))}
        both = _ask(self.both) if None in asked.values() else None
        return {name: both if own is None else own for name, own in asked.items()}


def _ask(password: Password) -> bytes | str | None:
    return password() if callable(password) else password


@dataclass(frozen=True, slots=True)
class Material:
    """Parsed certificates and keys.

    Attributes:
        certificates: the certificates of the identity.
        qwac_key: the private key of the QWAC.
        make_seal: makes the seal. It is called with the seal in use, which it returns if the certificate is unchanged. None without
            a seal. Raises the errors of `Seal`, and `signer.close`. Only this function uses a device or service.
        made_signer: whether a function of the caller makes the seal's signer.
    """

    certificates: IdentityCertificates
    qwac_key: PrivateKeyTypes
    make_seal: Callable[[Seal | None], Seal] | None
    made_signer: bool


def read_material(
    found: Mapping[str, bytes | None],
    server_anchors: CertificateSource | None = None,
    *,
    passwords: Passwords,
    signer: SealSigner,
    options: SealOptions,
    at: datetime,
) -> Material:
    """Parse the certificates and keys of an identity, and check that they fit each other.

    Args:
        found: bytes by the names of `PARTS`; a certificate without a key must be PKCS#12 that contains the key.
        server_anchors: see `read_certificates`.
        passwords: for encrypted keys and PKCS#12; an unencrypted key needs none.
        signer: signs for the seal instead of a key, or a function that makes a signer for the seal certificate.
        options: options of the seal.
        at: the present time, aware.

    Raises:
        FormatError: `certificate.*`, `der.*`, `pem.*`, `pkcs12.*`, `profile.key`.
        ConfigurationError: `identity.incomplete`, `key.unreadable`, `seal.certificate-type`; with a key, those of `Seal`; those of
            `IdentityCertificates.require_fit`.
    """
    if unknown := options.keys() - SealOptions.__annotations__.keys():  # without a seal, no other code would notice
        raise TypeError(f"an identity takes no argument {', '.join(sorted(unknown))}")
    secrets = passwords.ask()
    qwac, qwac_key, chain = _read_pair("QWAC", found, secrets["QWAC"])
    qseal, make_seal = None, None
    if found.get("QSEAL") is not None:
        qseal, make_seal = _read_seal(found, secrets["QSEAL"], signer, options)
    elif found.get("QSEAL_KEY") is not None or signer is not None:
        raise ConfigurationError("identity.incomplete", "a seal needs both its certificate and its key or signer")
    anchors = None if server_anchors is None else read_certificates(server_anchors, what="SERVER_ANCHORS")
    certificates = IdentityCertificates(qwac, order_chain(qwac, chain, at=at), qseal, anchors)
    certificates.require_fit(qwac_key)
    return Material(certificates, qwac_key, make_seal, callable(signer))


def _read_seal(
    found: Mapping[str, bytes | None], password: bytes | str | None, signer: SealSigner, options: SealOptions
) -> tuple[EidasCertificate, Callable[[Seal | None], Seal]]:
    if signer is None:
        certificate, key, _ = _read_pair("QSEAL", found, password)
        seal = Seal.for_key(certificate, key, **options)
        return certificate, lambda _: seal
    if found.get("QSEAL_KEY") is not None:
        raise ConfigurationError("identity.incomplete", "pass a key or a signer for the seal, not both")
    certificate = _read_certificates("QSEAL", found["QSEAL"] or b"", password)[0]
    require_seal_type(certificate)

    def make(present: Seal | None) -> Seal:
        if present is not None and present.certificate == certificate:
            return present  # do not use the device or service at each reload
        if not callable(signer):
            return Seal(certificate, signer, **options)
        made = signer(certificate)
        _require_close(made)
        try:
            return Seal(certificate, made, **options)
        except BaseException:
            if present is None or made is not present.signer:
                close_signer(made)
            raise

    return certificate, make


def _require_close(signer: Signer) -> None:
    """Reject a signer whose `close` is a coroutine function, because no code awaits it."""
    if inspect.iscoroutinefunction(getattr(signer, "close", None)):
        raise ConfigurationError(
            "signer.close", f"the close of {type(signer).__name__} must not be a coroutine function"
        )


def close_signer(signer: Signer) -> None:
    """Call `close` of a signer if it has one. Log an exception without its text, which may contain secrets."""
    try:
        close = getattr(signer, "close", None)
        if not callable(close):
            return
        left = close()
        if inspect.isawaitable(left):
            if inspect.iscoroutine(left):
                left.close()  # it was never started
            raise ConfigurationError("signer.close", f"the close of {type(signer).__name__} returned an awaitable")
    except (Exception, CancelledError) as e:  # noqa: BLE001  # the signer is not needed any more
        _LOG.warning(
            "an unused signer was not closed: %s",
            e if isinstance(e, TppkitError) else type(e).__name__,
        )


def _read_pair(
    name: str, found: Mapping[str, bytes | None], password: bytes | str | None
) -> tuple[EidasCertificate, PrivateKeyTypes, tuple[EidasCertificate, ...]]:
    data, key = found.get(name), found.get(f"{name}_KEY")
    if data is None:
        raise ConfigurationError("identity.incomplete", f"{name} is absent")
    if key is not None:
        certificates = _read_certificates(name, data, password)
        with _named(f"{name}_KEY"):
            return certificates[0], load_private_key(key, password=password), certificates[1:]
    if not is_pkcs12(data):
        raise ConfigurationError("identity.incomplete", f"{name} has no private key and is not PKCS#12 with a key")
    with _named(name):
        held = parse_pkcs12(data, password=password)
    return held.certificate, held.key, held.chain


def _read_certificates(name: str, data: bytes, password: bytes | str | None = None) -> tuple[EidasCertificate, ...]:
    with _named(name):
        certificates = parse_certificates(data, password)
        if not certificates:
            raise FormatError("certificate.not-found", "it contains a certificate request, but no certificate")
    return certificates


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of the part to an error."""
    try:
        yield
    except (FormatError, ConfigurationError) as e:
        raise type(e)(e.code, f"{name}: {e.message}") from e


def read_files(paths: Mapping[str, FilePath | None]) -> dict[str, bytes | None]:
    """Read the file of each part.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`.
    """
    return {
        name: None if path is None else read_bounded(path, max_bytes=MAX_SOURCE_BYTES) for name, path in paths.items()
    }


def source_files(paths: Mapping[str, FilePath | None], server_anchors: CertificateSource | None) -> list[FilePath]:
    """Return the paths that `read_files` reads, and that of the anchors if they are given as a path."""
    anchors = [server_anchors] if isinstance(server_anchors, str | os.PathLike) else []
    return [path for path in (*paths.values(), *anchors) if path is not None]


def environment_files(environment: Mapping[str, str], *, prefix: str) -> list[FilePath]:
    """Return the paths that `read_environment` reads."""
    names = (*PARTS, "SERVER_ANCHORS", "PASSWORD", "QWAC_PASSWORD", "QSEAL_PASSWORD")
    return [path for name in names if (path := environment.get(f"{prefix}{name}_FILE"))]


def read_environment(
    environment: Mapping[str, str], *, prefix: str
) -> tuple[dict[str, bytes | None], bytes | None, Passwords]:
    """Read parts, anchors and passwords from variables, or from files that they name; an empty variable counts as absent.

    Raises:
        ConfigurationError: `identity.environment`, a part is set twice or is neither PEM nor base64, or a text cannot be encoded;
            `identity.incomplete`, the QWAC or its key is not set.
        FormatError: `file.unreadable`, `file.too-large`.
    """
    values = {name: _read_variable(environment, f"{prefix}{name}", _read_part) for name in PARTS}
    qwac = values["QWAC"]
    absent = "QWAC" if qwac is None else "QWAC_KEY" if values["QWAC_KEY"] is None and not is_pkcs12(qwac) else None
    if absent is not None:
        raise ConfigurationError("identity.incomplete", f"neither {prefix}{absent} nor {prefix}{absent}_FILE is set")
    anchors = _read_variable(environment, f"{prefix}SERVER_ANCHORS", _read_part)
    both, qwac_password, qseal_password = (
        _read_variable(environment, f"{prefix}{name}", _bytes_of_text)
        for name in ("PASSWORD", "QWAC_PASSWORD", "QSEAL_PASSWORD")
    )
    return values, anchors, Passwords(both, qwac_password, qseal_password)


def _read_variable(environment: Mapping[str, str], name: str, read: Callable[[str, str], bytes]) -> bytes | None:
    text, path = environment.get(name) or None, environment.get(f"{name}_FILE") or None
    if text is not None and path is not None:
        raise ConfigurationError("identity.environment", f"{name} and {name}_FILE are both set")
    if path is not None:
        held = read_bounded(Path(path), max_bytes=MAX_SOURCE_BYTES)
        return held.rstrip(b"\r\n") if read is _bytes_of_text else held
    return None if text is None else read(name, text)


def _bytes_of_text(name: str, text: str) -> bytes:
    """Return the bytes of a variable as in the system's environment, before Python decoded them."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        raise ConfigurationError("identity.environment", f"{name} cannot be encoded as the system's text") from None


def _read_part(name: str, text: str) -> bytes:
    if "-----BEGIN " in text:
        return _bytes_of_text(name, text.replace("\\n", "\n"))  # many tools cannot set a variable of several lines
    try:
        return binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError("identity.environment", f"{name} is neither PEM nor base64") from None


def order_chain(
    certificate: EidasCertificate, others: Iterable[EidasCertificate], *, at: datetime
) -> tuple[EidasCertificate, ...]:
    """Return the chain of a certificate, its issuer first, without the root (which the peer has) and unrelated certificates.

    If an authority has several certificates, prefer a valid one, then one that does not expire before the issued certificate, then
    the first.

    Args:
        certificate: the certificate at the start of the chain.
        others: certificates in any order.
        at: the present time, aware.

    Source: RFC 5246 section 7.4.2.
    """
    left = [other for other in dict.fromkeys(others) if not _is_issuer(other, other)]
    chain = []
    while issuers := [other for other in left if _is_issuer(other, certificate)]:
        named = [issuer for issuer in issuers if issuer.subject == certificate.issuer]
        certificate = max(named or issuers, key=partial(_fitness, certificate, at))
        chain.append(certificate)
        # Use each authority once, because authorities that signed for each other form a loop.
        left = [other for other in left if not _is_same_authority(other, certificate)]
    return tuple(chain)


def _fitness(certificate: EidasCertificate, at: datetime, issuer: EidasCertificate) -> tuple[bool, bool, bool]:
    """Return the sort key of a certificate of an authority; one whose key signed `certificate` comes first."""
    try:
        has_signed = is_signed_by(certificate, issuer)
    except FormatError:  # a key that cannot be read
        has_signed = False
    return has_signed, issuer.is_valid_at(at), certificate.not_after <= issuer.not_after


def _is_same_authority(one: EidasCertificate, other: EidasCertificate) -> bool:
    return one.subject == other.subject and public_key_info(one) == public_key_info(other)


def _is_issuer(authority: EidasCertificate, certificate: EidasCertificate) -> bool:
    """Compare key identifiers if both are present, else names, because the spelling of names may differ."""
    wanted = certificate.extensions.authority_key_identifier
    key_id = authority.extensions.subject_key_identifier
    return wanted == key_id if wanted and key_id else authority.subject == certificate.issuer
