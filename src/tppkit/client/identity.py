"""A provider's identity: the QWAC with its key, the seal, and the TLS contexts made from them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Self, Unpack

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._clock import Clock, as_utc, utc_now
from tppkit._encoding import shown
from tppkit._files import FilePath, FileTimes, file_times, require_regular
from tppkit._locals import without_locals
from tppkit.certificates import EidasCertificate
from tppkit.certificates.files import CertificateSource, read_certificates
from tppkit.client.identity_material import (
    PARTS,
    IdentityCertificates,
    Material,
    Password,
    Passwords,
    SealSigner,
    close_signer,
    environment_files,
    read_environment,
    read_files,
    read_material,
    source_files,
)
from tppkit.client.tls_context import Adjust, IdentityContext, IdentityContexts
from tppkit.errors import ConfigurationError, Finding
from tppkit.httpsig import Signer
from tppkit.seals import Seal
from tppkit.seals.seal import SealOptions

WARN_DAYS = 30


@dataclass(frozen=True, slots=True)
class _Present:
    """The state that a renewal replaces in one step.

    Attributes:
        certificates: the certificates of the identity.
        contexts: the TLS contexts for new connections.
        seal: the seal for new requests.
        made_signer: the seal's signer, if a function of the caller made it for this identity.
    """

    certificates: IdentityCertificates
    contexts: IdentityContexts
    seal: Seal | None
    made_signer: Signer | None = None


class Identity:
    """A provider's certificates and keys, and the TLS context of its connections.

    Args:
        qwac: the website certificate.
        qwac_key: its private key.
        chain: authorities to send with it, the issuer first.
        seal: seals requests; None for a client that sends no sealed requests.
        server_anchors: path, PEM or DER bytes, or certificates of the authorities of the bank's server; None: the system's.

    Raises:
        ConfigurationError: `identity.key-mismatch`, `identity.qc-type`, `identity.other-organisation`, `identity.tls`;
            `trust.no-anchors`, `server_anchors` is empty; `certificate.argument`.

    Example:
        identity = Identity.from_pkcs12(qwac="qwac.p12", qseal="qseal.p12", password="test")
        with Psd2Client("https://psd2.bank.example", identity=identity) as client:
            client.initiate_payment(payment)
    """

    @without_locals
    def __init__(
        self,
        qwac: EidasCertificate,
        qwac_key: PrivateKeyTypes,
        *,
        chain: Sequence[EidasCertificate] = (),
        seal: Seal | None = None,
        server_anchors: CertificateSource | None = None,
    ) -> None:
        anchors = None if server_anchors is None else read_certificates(server_anchors, what="server_anchors")
        qseal = None if seal is None else seal.certificate
        certificates = IdentityCertificates(qwac, tuple(chain), qseal, anchors)
        certificates.require_fit(qwac_key)
        contexts = IdentityContexts((qwac, *chain), qwac_key, server_anchors=anchors)
        self._present = _Present(certificates, contexts, seal)
        self._read: Callable[[datetime], Material] | None = None
        self._watch: Callable[[], FileTimes] = tuple
        self._times: FileTimes = ()
        self._renewing = Lock()

    def __repr__(self) -> str:
        return f"Identity({shown(str(self.qwac.subject), limit=160)}, sealed={self.seal is not None})"

    @property
    def tls_context(self) -> ssl.SSLContext:
        """A TLS context for an HTTP library. Read it again for each client, because clients set their protocols (HTTP/2) on it.

        It makes connections with the identity's current certificate, also after a renewal.
        """
        return self.tls_context_with(None)

    def tls_context_with(self, adjust: Adjust | None) -> ssl.SSLContext:
        """A TLS context with other settings, for one bank.

        Args:
            adjust: changes the settings of a new context of Python; called for each certificate and list of protocols.

        Example:
            def strict_bank(context: ssl.SSLContext) -> None:
                context.maximum_version = ssl.TLSVersion.TLSv1_2
        """
        return IdentityContext(lambda: self._present.contexts, adjust)

    @property
    def qwac(self) -> EidasCertificate:
        """The website certificate of new connections."""
        return self._present.certificates.qwac

    @property
    def chain(self) -> tuple[EidasCertificate, ...]:
        """The authorities that new connections send with it, the issuer first."""
        return self._present.certificates.chain

    @property
    def seal(self) -> Seal | None:
        """The seal for new requests."""
        return self._present.seal

    @classmethod
    @without_locals
    def from_files(
        cls,
        *,
        qwac: FilePath,
        qwac_key: FilePath,
        qseal: FilePath | None = None,
        qseal_key: FilePath | None = None,
        server_anchors: CertificateSource | None = None,
        password: Password = None,
        qwac_password: Password = None,
        qseal_password: Password = None,
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Read certificates and keys from files.

        Args:
            qwac: the website certificate in any format, with or without its chain.
            qwac_key: its private key, PEM, DER or PKCS#12.
            qseal: the seal certificate; None for a client that sends no sealed requests.
            qseal_key: its private key, PEM, DER or PKCS#12.
            server_anchors: see `Identity`; `reload` reads a path again.
            password: for encrypted keys: text, bytes, or a function that returns them. An unencrypted key needs none.
            qwac_password: for `qwac_key`, if it differs.
            qseal_password: for `qseal_key`, if it differs.
            signer: signs for the seal instead of `qseal_key`; or a function that makes a signer for the seal certificate. `reload`
                calls the function for a new, valid seal certificate. If the signer has `close`, it is called after the last use.
            now: the clock, which decides between several certificates of one authority.
            options: `profile`, `key_id`, `origin` and `verify_own` of `Seal`.

        Raises:
            FormatError: `file.*`, `certificate.*`, `key.*`, `profile.key`.
            ConfigurationError: `identity.incomplete`, `key.unreadable`, `signer.close`, those of `Seal`, and those of `Identity`.
        """
        paths = dict(zip(PARTS, (qwac, qwac_key, qseal, qseal_key), strict=True))
        passwords = Passwords(password, qwac_password, qseal_password)
        files = source_files(paths, server_anchors)
        return cls._from(lambda: (read_files(paths), server_anchors, passwords), files, signer, options, now)

    @classmethod
    @without_locals
    def from_pkcs12(
        cls,
        *,
        qwac: FilePath,
        qseal: FilePath | None = None,
        server_anchors: CertificateSource | None = None,
        password: Password = None,
        qwac_password: Password = None,
        qseal_password: Password = None,
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Read certificates with their keys from PKCS#12 files. With a `signer`, the file of the seal needs no key.

        Arguments and errors are those of `from_files`; `pkcs12.*` too.
        """
        paths = {"QWAC": qwac, "QSEAL": qseal}
        passwords = Passwords(password, qwac_password, qseal_password)
        files = source_files(paths, server_anchors)
        return cls._from(lambda: (read_files(paths), server_anchors, passwords), files, signer, options, now)

    @classmethod
    @without_locals
    def from_environment(
        cls,
        environment: Mapping[str, str],
        *,
        prefix: str = "TPPKIT_",
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Read certificates and keys from environment variables, or from files that they name.

        `TPPKIT_QWAC`, `TPPKIT_QWAC_KEY`, `TPPKIT_QSEAL`, `TPPKIT_QSEAL_KEY` and `TPPKIT_SERVER_ANCHORS` contain PEM (line breaks may
        be written as backslash and n), or base64 of DER or PKCS#12. `TPPKIT_PASSWORD` is the password of encrypted keys, unless
        `TPPKIT_QWAC_PASSWORD` or `TPPKIT_QSEAL_PASSWORD` is set. With the suffix `_FILE`, each variable contains a path instead. An
        empty variable counts as absent.

        Args:
            environment: `os.environ`; `reload` reads it again.
            prefix: prefix of the variables' names.
            signer: see `from_files`.
            now: see `from_files`.
            options: see `from_files`.

        Raises:
            FormatError: `file.*`, `pkcs12.*`, `certificate.*`.
            ConfigurationError: `identity.environment`; see `from_files`.
        """
        files = environment_files(environment, prefix=prefix)
        return cls._from(lambda: read_environment(environment, prefix=prefix), files, signer, options, now)

    @classmethod
    @without_locals
    def from_memory(
        cls,
        *,
        qwac: bytes,
        qwac_key: bytes | None = None,
        qseal: bytes | None = None,
        qseal_key: bytes | None = None,
        server_anchors: CertificateSource | None = None,
        password: Password = None,
        qwac_password: Password = None,
        qseal_password: Password = None,
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Read certificates and keys from bytes, for example from a secret store: PEM, DER or PKCS#12 (which contains its key).

        Arguments and errors are those of `from_files`. `reload` does not work; use `renew`.
        """
        found = dict(zip(PARTS, (qwac, qwac_key, qseal, qseal_key), strict=True))
        passwords = Passwords(password, qwac_password, qseal_password)
        return cls._made_of(
            read_material(found, server_anchors, passwords=passwords, signer=signer, options=options, at=now())
        )

    @classmethod
    def _from(
        cls,
        find: Callable[[], tuple[Mapping[str, bytes | None], CertificateSource | None, Passwords]],
        files: Sequence[FilePath],
        signer: SealSigner,
        options: SealOptions,
        now: Clock,
    ) -> Self:
        def read(at: datetime) -> Material:
            found, anchors, passwords = find()
            return read_material(found, anchors, passwords=passwords, signer=signer, options=options, at=at)

        def read_again(at: datetime) -> Material:
            require_regular(files)  # at first, a shell may hand over a FIFO: <(...)
            return read(at)

        times = file_times(files)
        identity = cls._made_of(read(now()))
        identity._read, identity._watch, identity._times = read_again, lambda: file_times(files), times
        return identity

    @classmethod
    def _made_of(cls, material: Material, present: _Present | None = None) -> Self:
        """Build an identity. The seal is made last, so that other errors occur before a device or service is used."""
        found = material.certificates
        identity = cls(found.qwac, material.qwac_key, chain=found.chain, server_anchors=found.server_anchors)
        if material.make_seal is not None:
            seal = material.make_seal(None if present is None else present.seal)
            made_signer = seal.signer if material.made_signer else None
            if present is not None and seal is present.seal:
                made_signer = present.made_signer
            identity._present = _Present(found, identity._present.contexts, seal, made_signer)
        return identity

    def check(self, *, at: datetime, warn_days: int = WARN_DAYS) -> tuple[Finding, ...]:
        """Check the validity of QWAC, its chain and QSealC.

        Args:
            at: the time to judge at, aware.
            warn_days: warn if a certificate expires within this number of days.

        Returns:
            Findings `identity.not-yet-valid`, `identity.expired` (errors) and `identity.expires` (a warning, with the days left).
        """
        return tuple(self._present.certificates.check_validity(as_utc(at), timedelta(days=warn_days)))

    @property
    def has_changed(self) -> bool:
        """Whether its files changed since they were read, by their identities, sizes and times; for `trust.Reloader`.

        Variables with the certificates themselves are not looked at.
        """
        return self._watch() != self._times

    @without_locals
    def reload(self, *, at: datetime) -> bool:
        """Read the files or the environment again, and use the new certificates and keys if they changed.

        New connections use the new certificate and new requests the new seal; open connections do not change. After an error, the
        identity stays as it was.

        Args:
            at: the present time, aware; certificates that are not valid at this time are rejected.

        Returns:
            Whether anything changed.

        Raises:
            ConfigurationError: `identity.no-source`, it was not made from files or the environment; `identity.not-valid`,
                `identity.other-organisation`, `identity.seal-lost`; see `from_files` and `Identity`.
            FormatError: see `from_files`; `file.unreadable`, also for what is not a regular file.
        """
        with self._renewing:
            if self._read is None:
                raise ConfigurationError(
                    "identity.no-source", "this identity was made in memory; pass a new one to `renew`"
                )
            at, times = as_utc(at), self._watch()
            material = self._read(at)
            is_same = material.certificates == self._present.certificates
            if not is_same:
                material.certificates.require_renewal_of(self._present.certificates, at)
                other = self._made_of(material, self._present)
                self._take(other, made_signer=other._present.made_signer)
            self._times = times
        return not is_same

    def renew(self, other: Identity, *, at: datetime) -> None:
        """Use the certificates and keys of another identity for new connections and requests.

        `reload` then reads the source of the other identity.

        Args:
            other: an identity of the same organisation.
            at: the present time, aware.

        Raises:
            ConfigurationError: `identity.not-valid`, `identity.other-organisation`, `identity.seal-lost`; the identity stays as it was.
        """
        with self._renewing:
            other._present.certificates.require_renewal_of(self._present.certificates, as_utc(at))
            self._take(other, made_signer=None)  # `other` still owns its signer
            self._read, self._watch, self._times = other._read, other._watch, other._times

    def _take(self, other: Identity, *, made_signer: Signer | None) -> None:
        before = self._present.made_signer
        self._present = replace(other._present, made_signer=made_signer)
        if before is not None and (self.seal is None or self.seal.signer is not before):
            close_signer(before)
