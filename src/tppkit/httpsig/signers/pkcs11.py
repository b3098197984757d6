"""A signer with a key in a hardware security module, through PKCS#11 (extra `hsm`).

The private key never leaves the device. The public key is read from the device.
Source: PKCS #11 Cryptographic Token Interface 2.40 (OASIS).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import Any, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_public_key

from tppkit._extras import needs_extra
from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, FormatError, TransportError
from tppkit.httpsig.algorithms import Algorithm, Scheme, der_from_raw, hash_data
from tppkit.httpsig.signers.protocol import choose_algorithm

_RAW_BYTES = {"P-256": 32, "P-384": 48, "P-521": 66}


class Pkcs11Signer:
    """Signs with a key in a device; thread-safe.

        with Pkcs11Signer("/usr/lib/softhsm/libsofthsm2.so", token="seals", pin=read_pin, label="qseal") as signer:
            seal = Seal(certificate, signer)

    The session stays open until `close` or the end of a `with` block. If the device drops the session (restart, log-out, removal),
    the next signature opens a new one and logs in again, once. If the device rejects a PIN, this signer stops, and no signer of this
    process sends that PIN to the token again, because a few wrong PINs lock a device.

    Args:
        module: the device's PKCS#11 library, for example `/usr/lib/softhsm/libsofthsm2.so`.
        token: the token's label.
        pin: the user's PIN, or a function that returns it. The function is called for each log-in, and its result is not stored.
        label: the key's label.
        key_id: the key's id (CKA_ID). Label, id or both must identify one private key.
        algorithm: a name of `httpsig.algorithms.ALGORITHMS`; by default the key's usual one.

    Raises:
        ConfigurationError: `extra.missing`; `signer.module`, the library cannot be used; `signer.key-not-found`, no such token,
            key or public key, or several; `signer.pin`, the PIN is refused, or none is given.
        FormatError: `key.unsupported`, `key.weak`, `signature.algorithm`.
        TransportError: `signer.unavailable`.
    """

    @without_locals
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
            raise ConfigurationError("signer.key-not-found", "pass the key's label, its id or both")
        self._pkcs11 = _import()
        self._module = str(module)
        self._token = token
        self._pin = pin if callable(pin) else lambda: pin
        self._wanted: Mapping[str, Any] = {"LABEL": label, "ID": key_id}
        self._process = _process_of(self._module)
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
        """End the session and its log-in, which applies to the whole process."""
        with self._lock:
            self._close()

    @without_locals
    def sign(self, data: bytes) -> bytes:
        """Return the device's signature over `data`.

        Raises:
            ConfigurationError: `signer.pin`, the device requires a new log-in and rejects it.
            TransportError: `signer.unavailable`.
        """
        with self._lock:
            self._require_no_refusal()
            try:
                signature = self._sign_in_new_session(data) if self._key is None else self._sign(data)
            except self._pkcs11.PKCS11Error:
                signature = self._sign_in_new_session(data)
        try:
            return self._finish(signature)
        except InvalidSignature as e:
            raise TransportError(
                "signer.unavailable",
                f"the token {self._token!r} returned {len(signature)} bytes, which are not a signature of its key",
            ) from e

    async def sign_async(self, data: bytes) -> bytes:
        """Run `sign` in a thread."""
        return await asyncio.to_thread(self.sign, data)

    def _sign_in_new_session(self, data: bytes) -> bytes:
        """Sign in a new session. Signing changes nothing in the device, so a retry is safe."""
        try:
            self._open()
            return self._sign(data)
        except ConfigurationError as e:
            if e.code == "signer.pin":
                raise
            raise TransportError("signer.unavailable", f"{e.message}, although the key was found before") from e
        except self._pkcs11.PKCS11Error as e:
            raise self._unavailable("cannot sign", e) from e

    def _sign(self, data: bytes) -> bytes:
        mechanism, parameter = _mechanism(self._pkcs11, self.algorithm)
        if self.algorithm.scheme in (Scheme.ECDSA_DER, Scheme.ECDSA_RAW):
            data = hash_data(data, self.algorithm.hash)  # few devices support ECDSA with a hash
        again = self._ask_pin() if self._asks_always else None
        with self._pin_errors(again):
            signature: bytes = self._key.sign(data, mechanism=mechanism, mechanism_param=parameter, pin=again)
        return signature

    def _open(self) -> None:
        """Open a session and find the private key, with a log-in if the device requires it."""
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
            with self._pin_errors(pin):
                return token.open(user_pin=pin)
        except self._pkcs11.UserAlreadyLoggedIn:
            return token.open()  # another part of the process has logged in, which applies here too

    def _ask_pin(self) -> str:
        pin: object = self._pin()
        if not isinstance(pin, str) or not pin:  # without a PIN, the session would not show private keys
            given = "an empty text" if isinstance(pin, str) else f"a {type(pin).__name__} and no text"
            raise ConfigurationError(
                "signer.pin", f"the PIN for the token {self._token!r} is {given}; no log-in was tried"
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
            with suppress(self._pkcs11.PKCS11Error):  # the device may have dropped the session
                session.close()

    @contextmanager
    def _pin_errors(self, pin: str | None) -> Iterator[None]:
        """Convert errors about the PIN, and remember a wrong one."""
        p11 = self._pkcs11
        wrong = (p11.PinIncorrect, p11.PinInvalid, p11.PinLenRange)
        try:
            yield
        except (*wrong, p11.PinLocked, p11.PinExpired) as e:
            self._refused = True
            if pin is not None and isinstance(e, wrong):
                self._process.remember_refused(self._token, pin)
            raise ConfigurationError(
                "signer.pin",
                f"the token {self._token!r} refuses the PIN ({type(e).__name__}): correct it, because a few wrong PINs lock the token",
            ) from None

    def _require_no_refusal(self) -> None:
        if self._refused:
            raise ConfigurationError(
                "signer.pin", f"the token {self._token!r} refused the PIN before; no log-in was tried"
            )

    def _read_public_key(self) -> CertificatePublicKeyTypes:
        """Read the public key from the device's public key object, else from the key's certificate."""
        p11 = self._pkcs11
        identity = self._attribute(self._key, "ID", default=b"")
        wanted = {"ID": identity} if identity else {"LABEL": self._wanted["LABEL"]}
        try:
            for thing in (self._key, *self._objects("PUBLIC_KEY", wanted)):
                if found := _read_public_key(p11, thing):
                    return found
            for thing in self._objects("CERTIFICATE", wanted):
                return _read_certificate_key(thing[p11.Attribute.VALUE])
        except p11.PKCS11Error as e:
            raise self._unavailable("does not return the public key", e) from e
        raise self._not_found("has neither public key nor certificate for the private key")

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
    with needs_extra("hsm"):
        import pkcs11
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
    """Return a function that converts a device's signature (for ECDSA, raw r and s) to the form of the algorithm."""
    size = _RAW_BYTES.get(algorithm.key, 0)
    if algorithm.scheme is Scheme.ECDSA_DER:
        return lambda signature: der_from_raw(signature, size=size)
    return lambda signature: signature


def _read_public_key(p11: Any, key: Any) -> CertificatePublicKeyTypes | None:
    """Read the public key from a key object; None for an EC private key, which does not contain it.

    Args:
        p11: the module `pkcs11`.
        key: a public or private key of the device.

    Raises:
        FormatError: `key.unsupported`.
    """
    try:
        match key.key_type:
            case p11.KeyType.RSA:  # private key objects have these attributes too
                modulus, exponent = key[p11.Attribute.MODULUS], key[p11.Attribute.PUBLIC_EXPONENT]
                numbers = rsa.RSAPublicNumbers(int.from_bytes(exponent, "big"), int.from_bytes(modulus, "big"))
                return numbers.public_key()
            case p11.KeyType.EC:
                found = load_der_public_key(p11.util.ec.encode_ec_public_key(key))
                return found if isinstance(found, ec.EllipticCurvePublicKey) else None
            case p11.KeyType.EC_EDWARDS:
                return ed25519.Ed25519PublicKey.from_public_bytes(_octets(key[p11.Attribute.EC_POINT]))
    except (p11.AttributeTypeInvalid, p11.AttributeSensitive):
        return None
    except (ValueError, UnsupportedAlgorithm) as e:
        raise FormatError("key.unsupported", "the device's public key is of an unsupported type") from e
    raise FormatError("key.unsupported", "the device's key is neither RSA nor EC")


def _octets(point: bytes) -> bytes:
    # PKCS #11 3.0 has the raw point, earlier drafts wrap it in an OCTET STRING; devices have both.
    return point[2:] if point[:2] == b"\x04\x20" and len(point) == 34 else point


def _read_certificate_key(der: bytes) -> CertificatePublicKeyTypes:
    """Read the public key of a certificate in the device.

    Raises:
        FormatError: `key.unsupported`.
    """
    try:
        return x509.load_der_x509_certificate(der).public_key()
    except (ValueError, UnsupportedAlgorithm) as e:
        raise FormatError("key.unsupported", "the certificate in the device has an unsupported key") from e


class _Process:
    """State of a PKCS#11 library in this process.

    Attributes:
        lock: hold it for each call of the library. python-pkcs11 initialises the library without locking, so only one thread may
            call it at a time, for all tokens and sessions.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self._secret = secrets.token_bytes(32)
        self._refused: set[bytes] = set()

    def has_refused(self, token: str, pin: str) -> bool:
        """Whether a token rejected this PIN before."""
        return self._digest(token, pin) in self._refused

    def remember_refused(self, token: str, pin: str) -> None:
        """Remember a rejected PIN as a digest, keyed with a random secret of this process."""
        self._refused.add(self._digest(token, pin))

    def _digest(self, token: str, pin: str) -> bytes:
        return blake2b(repr((token, pin)).encode(), key=self._secret).digest()


@cache
def _process_of(module: str) -> _Process:
    """Return the state of a library; signers must name the library by the same path."""
    return _Process()
