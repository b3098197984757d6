"""Signs with a key in a hardware security module, through PKCS#11 (extra `hsm`).

The private key never leaves the device. The public key is read from it, so a signer fits its certificate or says so when the seal
is made.
Source: PKCS #11 Cryptographic Token Interface 2.40 (OASIS).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from tppkit._extras import missing_extra
from tppkit.errors import ConfigurationError, TransportError
from tppkit.httpsig.algorithms import Algorithm, Scheme, der_from_raw, hash_data
from tppkit.httpsig.signers.pkcs11_keys import read_certificate_key, read_public_key
from tppkit.httpsig.signers.pkcs11_process import process_of
from tppkit.httpsig.signers.protocol import choose_algorithm

_RAW_BYTES = {"P-256": 32, "P-384": 48}


class Pkcs11Signer:
    """Signs with a key in a device; can be used from several threads.

    The session stays open until `close`, or the end of a `with` block. When it has gone, or the device has dropped it (restart,
    log-out, removal), the next signature opens another one and logs in again, once. After a refused PIN nothing is tried any more, and
    no signer of this process gives the token the same one again, because a few wrong ones lock a device.

    Args:
        module: the device's PKCS#11 library, for example `/usr/lib/softhsm/libsofthsm2.so`.
        token: the token's label.
        pin: the user's PIN, or a function that gives it, which is asked whenever the device wants a log-in; what it gives is not
            kept.
        label: the key's label.
        key_id: the key's id (CKA_ID). At least one of both; the private key must be the only one that fits.
        algorithm: a name of `httpsig.ALGORITHMS`; the key's usual one when absent.

    Raises:
        ConfigurationError: `extra.missing`; `signer.module`, the library cannot be used; `signer.key-not-found`, no such token,
            key or public key, or several; `signer.pin`, the PIN is refused, or none is given.
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
        TransportError: `signer.unavailable`.
    """

    def __init__(
        self,
        module: Path | str,
        *,
        token: str,
        pin: str | Callable[[], str],
        label: str | None = None,
        key_id: bytes | None = None,
        algorithm: str | None = None,
    ) -> None:
        if label is None and key_id is None:
            raise ConfigurationError("signer.key-not-found", "a key of a token is named by its label, its id or both")
        self._pkcs11 = _import()
        self._module = str(module)
        self._token = token
        self._pin = pin if callable(pin) else lambda: pin
        self._wanted: Mapping[str, Any] = {"LABEL": label, "ID": key_id}
        self._process = process_of(self._module)
        self._lock = self._process.lock
        self._session: Any = None
        self._key: Any = None
        self._refused = False
        try:
            with self._lock:
                self._open()
                self.public_key = self._read_public_key()
            self.algorithm = choose_algorithm(self.public_key, algorithm)
        except BaseException:
            self.close()
            raise
        self._finish = _finisher(self.algorithm)

    def __repr__(self) -> str:
        return f"Pkcs11Signer({self._module!r}, token={self._token!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session, and the log-in that was made with it, which counts for the whole process."""
        with self._lock:
            self._close()

    def sign(self, data: bytes) -> bytes:
        """The device's signature over `data`.

        Raises:
            ConfigurationError: `signer.pin`, the device wants a log-in again and refuses it.
            TransportError: `signer.unavailable`.
        """
        with self._lock:
            self._require_no_refusal()
            try:
                signature = self._sign_anew(data) if self._key is None else self._sign(data)
            except self._pkcs11.PKCS11Error:
                signature = self._sign_anew(data)
        try:
            return self._finish(signature)
        except InvalidSignature as e:
            raise TransportError(
                "signer.unavailable", f"the token {self._token!r} gave {len(signature)} bytes, no signature of its key"
            ) from e

    async def sign_async(self, data: bytes) -> bytes:
        """The same in a thread. Raises as `sign`."""
        return await asyncio.to_thread(self.sign, data)

    def _sign_anew(self, data: bytes) -> bytes:
        """In a new session: a signature changes nothing in the device, so asking again is safe."""
        try:
            self._open()
            return self._sign(data)
        except ConfigurationError as e:
            if e.code == "signer.pin":
                raise
            raise TransportError("signer.unavailable", f"{e.message}, and had it before") from e
        except self._pkcs11.PKCS11Error as e:
            raise self._unavailable("does not sign", e) from e

    def _sign(self, data: bytes) -> bytes:
        mechanism, parameter = _mechanism(self._pkcs11, self.algorithm)
        if self.algorithm.scheme in (Scheme.ECDSA_DER, Scheme.ECDSA_RAW):
            data = hash_data(data, self.algorithm.hash)  # every device has plain ECDSA, few hash for it
        again = self._ask_pin() if self._asks_always else None
        with self._refused_pin_told(again):
            signature: bytes = self._key.sign(data, mechanism=mechanism, mechanism_param=parameter, pin=again)
        return signature

    def _open(self) -> None:
        """Find the private key in a session of ours, logging in where the device wants it."""
        self._close()
        try:
            token = self._library().get_token(token_label=self._token)
            if not (self._find(token.open) or self._find(lambda: self._log_in(token))):
                raise self._not_found("has no private key")
            self._asks_always = self._attribute(self._key, "ALWAYS_AUTHENTICATE", default=False)
        except (self._pkcs11.NoSuchToken, self._pkcs11.MultipleTokensReturned) as e:
            raise ConfigurationError(
                "signer.key-not-found", f"not exactly one token of {self._module} is called {self._token!r}"
            ) from e
        except self._pkcs11.PKCS11Error as e:
            raise self._unavailable("cannot be opened", e) from e

    def _library(self) -> Any:
        try:
            return self._pkcs11.lib(self._module)
        except (RuntimeError, OSError) as e:
            raise ConfigurationError("signer.module", f"{self._module} cannot be loaded as a PKCS#11 library") from e

    def _log_in(self, token: Any) -> Any:
        pin = self._ask_pin()
        try:
            with self._refused_pin_told(pin):
                return token.open(user_pin=pin)
        except self._pkcs11.UserAlreadyLoggedIn:
            return token.open()  # a log-in counts for the whole process, and another part of it was first

    def _ask_pin(self) -> str:
        pin: object = self._pin()
        if not isinstance(pin, str) or not pin:  # without one a session is opened that shows no private key
            given = "an empty text" if isinstance(pin, str) else f"a {type(pin).__name__} and no text"
            raise ConfigurationError(
                "signer.pin", f"the PIN for the token {self._token!r} is {given}; nothing was tried"
            )
        self._refused = self._process.has_refused(self._token, pin)
        self._require_no_refusal()
        return pin

    def _find(self, open_session: Callable[[], Any]) -> bool:
        self._session = open_session()
        found = self._objects("PRIVATE_KEY", self._wanted)
        if len(found) > 1:
            self._close()
            raise self._not_found("has several private keys")
        if not found:
            self._close()
            return False
        self._key = found[0]
        return True

    def _objects(self, kind: str, wanted: Mapping[str, Any]) -> list[Any]:
        p11 = self._pkcs11
        attributes = {p11.Attribute[name]: value for name, value in wanted.items() if value is not None}
        return list(self._session.get_objects({p11.Attribute.CLASS: p11.ObjectClass[kind], **attributes}))

    def _close(self) -> None:
        session, self._session, self._key = self._session, None, None
        if session is not None:
            with suppress(self._pkcs11.PKCS11Error):  # the device may have dropped it long ago
                session.close()

    @contextmanager
    def _refused_pin_told(self, pin: str | None) -> Iterator[None]:
        p11 = self._pkcs11
        wrong = (p11.PinIncorrect, p11.PinInvalid, p11.PinLenRange)
        try:
            yield
        except (*wrong, p11.PinLocked, p11.PinExpired) as e:
            self._refused = True
            if pin is not None and isinstance(e, wrong):
                self._process.note_refused(self._token, pin)
            raise ConfigurationError(
                "signer.pin",
                f"the token {self._token!r} refuses the PIN ({type(e).__name__}): correct it first, as a few wrong PINs lock the token",
            ) from None

    def _require_no_refusal(self) -> None:
        if self._refused:
            raise ConfigurationError(
                "signer.pin", f"the token {self._token!r} refused the PIN before; nothing was tried"
            )

    def _read_public_key(self) -> CertificatePublicKeyTypes:
        """From the public key that stands beside the private one, or else from its certificate."""
        p11 = self._pkcs11
        identity = self._attribute(self._key, "ID", default=b"")
        wanted = {"ID": identity} if identity else {"LABEL": self._wanted["LABEL"]}
        try:
            for thing in (self._key, *self._objects("PUBLIC_KEY", wanted)):
                if found := read_public_key(p11, thing):
                    return found
            for thing in self._objects("CERTIFICATE", wanted):
                return read_certificate_key(thing[p11.Attribute.VALUE])
        except p11.PKCS11Error as e:
            raise self._unavailable("does not tell the public key", e) from e
        raise self._not_found("has neither public key nor certificate beside the private key")

    def _attribute(self, thing: Any, name: str, *, default: Any) -> Any:
        try:
            return thing[self._pkcs11.Attribute[name]]
        except (self._pkcs11.AttributeTypeInvalid, self._pkcs11.AttributeSensitive):
            return default

    def _not_found(self, what: str) -> ConfigurationError:
        named = ", ".join(
            f"{name.lower()} {value.hex() if isinstance(value, bytes) else value!r}"
            for name, value in self._wanted.items()
            if value is not None
        )
        return ConfigurationError("signer.key-not-found", f"the token {self._token!r} {what} with {named}")

    def _unavailable(self, what: str, cause: Exception) -> TransportError:
        return TransportError("signer.unavailable", f"the token {self._token!r} {what}: {type(cause).__name__}")


def _import() -> Any:
    try:
        import pkcs11
    except ImportError as e:
        raise missing_extra("hsm", e) from e
    return pkcs11


def _mechanism(p11: Any, algorithm: Algorithm) -> tuple[Any, Any]:
    bits = algorithm.hash.digest_size * 8
    match algorithm.scheme:
        case Scheme.PKCS1:
            return p11.Mechanism[f"SHA{bits}_RSA_PKCS"], None
        case Scheme.PSS:
            parameter = (p11.Mechanism[f"SHA{bits}"], p11.MGF[f"SHA{bits}"], algorithm.hash.digest_size)
            return p11.Mechanism[f"SHA{bits}_RSA_PKCS_PSS"], parameter
        case Scheme.ED25519:
            return p11.Mechanism.EDDSA, None
        case Scheme.ECDSA_DER | Scheme.ECDSA_RAW:
            return p11.Mechanism.ECDSA, None


def _finisher(algorithm: Algorithm) -> Callable[[bytes], bytes]:
    """From what a device gives (ECDSA: r and s bare) to the form of the algorithm's scheme."""
    size = _RAW_BYTES.get(algorithm.key, 0)
    if algorithm.scheme is Scheme.ECDSA_DER:
        return lambda signature: der_from_raw(signature, size=size)
    return lambda signature: signature
