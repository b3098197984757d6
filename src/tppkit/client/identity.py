"""Who we are to a bank: the QWAC with its key, the seal, and the TLS that is made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Self, Unpack

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from tppkit._clock import Clock, as_utc, utc_now
from tppkit._encoding import shown
from tppkit._files import FilePath
from tppkit.certificates import EidasCertificate
from tppkit.client.identity_certificates import IdentityCertificates
from tppkit.client.identity_sources import (
    Material,
    Password,
    Passwords,
    SealOptions,
    SealSigner,
    close_signer,
    read_environment,
    read_files,
    read_material,
)
from tppkit.client.tls_context import IdentityContext, IdentityContexts
from tppkit.errors import ConfigurationError, Finding
from tppkit.httpsig.signers import Signer
from tppkit.seals import Seal

WARN_DAYS = 30


@dataclass(frozen=True, slots=True)
class _Present:
    """What is swapped in one step.

    Attributes:
        certificates: of the identity.
        seal: what new requests are sealed with.
        made_signer: the seal's signer, where a function of the caller's made it for this identity.
    """

    certificates: IdentityCertificates
    seal: Seal | None
    made_signer: Signer | None = None


class Identity:
    """A provider's certificates and keys, and the TLS of its connections (made once, then shared).

    Args:
        qwac: the website certificate.
        qwac_key: its private key.
        chain: authorities to send with it, the nearest first.
        seal: seals requests, with a signer of any kind; None when only reading.
        server_anchors: authorities that the bank's server certificate must chain to; None takes the system's.

    Raises:
        ConfigurationError: `identity.key-mismatch`, `identity.qc-type`, `identity.other-organisation`, `identity.tls`,
            `trust.no-anchors` when `server_anchors` is empty.
    """

    def __init__(
        self,
        qwac: EidasCertificate,
        qwac_key: PrivateKeyTypes,
        *,
        chain: Sequence[EidasCertificate] = (),
        seal: Seal | None = None,
        server_anchors: Sequence[EidasCertificate] | None = None,
    ) -> None:
        anchors = None if server_anchors is None else tuple(server_anchors)
        qseal = None if seal is None else seal.certificate
        certificates = IdentityCertificates(qwac, tuple(chain), qseal, anchors)
        certificates.require_fit(qwac_key)
        self._present = _Present(certificates, seal)
        self._contexts = IdentityContexts((qwac, *chain), qwac_key, server_anchors=anchors)
        self._read: Callable[[datetime], Material] | None = None
        self._renewing = Lock()

    def __repr__(self) -> str:
        return f"Identity({shown(str(self.qwac.subject), limit=160)}, sealed={self.seal is not None})"

    @property
    def tls_context(self) -> IdentityContext:
        """Give it to an HTTP library; take another one for each client, because each sets the protocols (HTTP/2) that it speaks.

        It makes connections with the identity's present certificate, after a renewal too. Clients that speak the same protocols share
        the sessions that are resumed.
        """
        return IdentityContext(lambda: self._contexts)

    @property
    def qwac(self) -> EidasCertificate:
        """The website certificate that new connections show."""
        return self._present.certificates.qwac

    @property
    def chain(self) -> tuple[EidasCertificate, ...]:
        """The authorities that new connections send with it, the nearest first."""
        return self._present.certificates.chain

    @property
    def seal(self) -> Seal | None:
        """What new requests are sealed with."""
        return self._present.seal

    @classmethod
    def from_files(
        cls,
        *,
        qwac: FilePath,
        qwac_key: FilePath,
        qseal: FilePath | None = None,
        qseal_key: FilePath | None = None,
        server_anchors: FilePath | None = None,
        password: Password = None,
        qwac_password: Password = None,
        qseal_password: Password = None,
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Read certificates and keys from files.

        Args:
            qwac: the website certificate in any form, with its chain behind it or without.
            qwac_key: its private key, PEM, DER or PKCS#12.
            qseal: the seal certificate; absent when only reading.
            qseal_key: its private key, PEM, DER or PKCS#12.
            server_anchors: authorities of the bank's server certificate; absent takes the system's.
            password: of encrypted keys, as text or bytes, or a function that gives it; a key that is not encrypted needs none.
            qwac_password: of `qwac_key`, where it is another one.
            qseal_password: of `qseal_key`, where it is another one.
            signer: of the seal, instead of `qseal_key`; or a function that makes one for the seal certificate, which `reload` asks
                when there is a new one that fits and is valid. What it makes is closed when it is used no more, where it has `close`.
            now: the clock, which tells of several certificates of one authority the one to send.
            options: how to seal: `profile`, `key_id`, `origin` and `verify_own`, as `Seal` takes them.

        Raises:
            FormatError: `file.*`, `certificate.*`, `key.*`, `profile.key`.
            ConfigurationError: `identity.incomplete`, `key.unreadable`, `signer.close`, those of `Seal`, and those of `Identity`.
        """
        paths = {
            "QWAC": qwac,
            "QWAC_KEY": qwac_key,
            "QSEAL": qseal,
            "QSEAL_KEY": qseal_key,
            "SERVER_ANCHORS": server_anchors,
        }
        return cls._from_paths(paths, Passwords(password, qwac_password, qseal_password), signer, options, now)

    @classmethod
    def from_pkcs12(
        cls,
        *,
        qwac: FilePath,
        qseal: FilePath | None = None,
        server_anchors: FilePath | None = None,
        password: Password = None,
        qwac_password: Password = None,
        qseal_password: Password = None,
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Read certificates with their keys from PKCS#12 files.

        Args:
            qwac: the website certificate with key and, where it holds one, chain.
            qseal: the seal certificate with its key, or without when there is a `signer`; absent when only reading.
            server_anchors: as for `from_files`.
            password: of both files, or a function that gives it.
            qwac_password: of the file `qwac`, where it is another one.
            qseal_password: of the file `qseal`, where it is another one.
            signer: as for `from_files`.
            now: as for `from_files`.
            options: as for `from_files`.

        Raises:
            FormatError: `file.*`, `pkcs12.*`, `certificate.*`.
            ConfigurationError: as for `from_files`.
        """
        paths = {"QWAC": qwac, "QSEAL": qseal, "SERVER_ANCHORS": server_anchors}
        return cls._from_paths(paths, Passwords(password, qwac_password, qseal_password), signer, options, now)

    @classmethod
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

        `TPPKIT_QWAC`, `TPPKIT_QWAC_KEY`, `TPPKIT_QSEAL`, `TPPKIT_QSEAL_KEY` and `TPPKIT_SERVER_ANCHORS` hold PEM (line
        breaks may be written as backslash and n) or base64 of DER or PKCS#12; `TPPKIT_PASSWORD` a text, and `TPPKIT_QWAC_PASSWORD` and
        `TPPKIT_QSEAL_PASSWORD` where they differ. Each with `_FILE` behind its name holds a path. An empty variable is an absent one.

        Args:
            environment: `os.environ`; `reload` reads it again.
            prefix: of the variables' names.
            signer: as for `from_files`.
            now: as for `from_files`.
            options: as for `from_files`.

        Raises:
            FormatError: `file.*`, `pkcs12.*`, `certificate.*`.
            ConfigurationError: `identity.environment`, and as for `from_files`.
        """

        def read(at: datetime) -> Material:
            found, passwords = read_environment(environment, prefix=prefix)
            return read_material(found, passwords=passwords, signer=signer, options=options, at=at)

        return cls._from(read, now)

    @classmethod
    def from_memory(
        cls,
        *,
        qwac: bytes,
        qwac_key: bytes | None = None,
        qseal: bytes | None = None,
        qseal_key: bytes | None = None,
        server_anchors: bytes | None = None,
        password: Password = None,
        qwac_password: Password = None,
        qseal_password: Password = None,
        signer: SealSigner = None,
        now: Clock = utc_now,
        **options: Unpack[SealOptions],
    ) -> Self:
        """Take certificates and keys as bytes, PEM, DER or PKCS#12 (which holds its key), for example from a secret store.

        Arguments and errors as for `from_files`. There is nothing to `reload`; `renew` takes over another identity.
        """
        found = {
            "QWAC": qwac,
            "QWAC_KEY": qwac_key,
            "QSEAL": qseal,
            "QSEAL_KEY": qseal_key,
            "SERVER_ANCHORS": server_anchors,
        }
        passwords = Passwords(password, qwac_password, qseal_password)
        return cls._made_of(read_material(found, passwords=passwords, signer=signer, options=options, at=now()))

    @classmethod
    def _from_paths(
        cls,
        paths: Mapping[str, FilePath | None],
        passwords: Passwords,
        signer: SealSigner,
        options: SealOptions,
        now: Clock,
    ) -> Self:
        def read(at: datetime) -> Material:
            return read_material(read_files(paths), passwords=passwords, signer=signer, options=options, at=at)

        return cls._from(read, now)

    @classmethod
    def _from(cls, read: Callable[[datetime], Material], now: Clock) -> Self:
        identity = cls._made_of(read(now()))
        identity._read = read
        return identity

    @classmethod
    def _made_of(cls, material: Material, present: _Present | None = None) -> Self:
        """All that can fail stands before the seal, for which a device is logged into or a service asked."""
        found, make_seal = material.certificates, material.make_seal
        found.require_fit(material.qwac_key)
        identity = cls(found.qwac, material.qwac_key, chain=found.chain, server_anchors=found.server_anchors)
        if make_seal is not None:
            before = None if present is None else present.seal
            seal = make_seal(before)
            made_signer = seal.signer if material.made_signer else None
            if present is not None and seal is before:
                made_signer = present.made_signer
            identity._present = _Present(found, seal, made_signer)
        return identity

    def check(self, *, at: datetime, warn_days: int = WARN_DAYS) -> tuple[Finding, ...]:
        """What is to be said about the validity of QWAC, its chain and QSealC.

        Args:
            at: the time to judge at, aware.
            warn_days: a certificate that ends within so many days is a warning.

        Returns:
            Findings `identity.not-yet-valid`, `identity.expired` (errors) and `identity.expires` (a warning, with the days left).
        """
        return tuple(self._present.certificates.check_validity(as_utc(at), timedelta(days=warn_days)))

    def reload(self, *, at: datetime) -> bool:
        """Read files or environment again and, where they changed, use what is there from now on.

        New connections show the new certificate and new requests carry the new seal; open connections stay as they are. When
        anything is wrong with what is there now, the identity stays as it was.

        Args:
            at: the present time, aware: certificates that are not valid are not taken.

        Returns:
            Whether anything changed.

        Raises:
            ConfigurationError: `identity.no-source`, it was not made of files or the environment; `identity.not-valid`,
                `identity.other-organisation`, `identity.seal-lost`; else as for `from_files` and `Identity`.
            FormatError: as for `from_files`.
        """
        with self._renewing:
            if self._read is None:
                raise ConfigurationError(
                    "identity.no-source", "this identity is one of memory; give `renew` another one"
                )
            at = as_utc(at)
            material = self._read(at)
            certificates = material.certificates
            certificates.require_fit(material.qwac_key)
            if certificates == self._present.certificates:
                return False
            certificates.require_renewal_of(self._present.certificates, at)
            other = self._made_of(material, self._present)
            self._take(other, made_signer=other._present.made_signer)
        return True

    def renew(self, other: Identity, *, at: datetime) -> None:
        """Use another identity's certificates and keys from now on, as `reload` does.

        `reload` then reads what the other one was made of, and not what this one was made of before.

        Args:
            other: of the same organisation.
            at: the present time, aware.

        Raises:
            ConfigurationError: `identity.not-valid`, `identity.other-organisation`, `identity.seal-lost`; the identity stays as it was.
        """
        with self._renewing:
            other._present.certificates.require_renewal_of(self._present.certificates, as_utc(at))
            self._take(other, made_signer=None)  # the other one's signer stays the other one's
            self._read = other._read

    def _take(self, other: Identity, *, made_signer: Signer | None) -> None:
        before = self._present.made_signer
        self._contexts = other._contexts
        self._present = replace(other._present, made_signer=made_signer)
        if before is not None and (self.seal is None or self.seal.signer is not before):
            close_signer(before)
