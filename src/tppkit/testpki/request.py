"""Certificate signing requests as a qualified trust service provider expects them.

Sources: RFC 2986 section 4 (PKCS #10), RFC 2985 section 5.4.2 (extensionRequest), ETSI TS 119 495 clause 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tppkit._encoding import shown
from tppkit.certificates import EidasRequest, check_statement, der, oids
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError
from tppkit.testpki import profiles
from tppkit.testpki.draft import (
    Attribute,
    Extension,
    attribute_of,
    attributes_of,
    extension_of,
    write_extensions,
    write_name,
)
from tppkit.testpki.keys import KEY_KINDS, SEAL_KEY_KINDS, PrivateKey, kind_of_public_key, public_key_der
from tppkit.testpki.provider import Provider, is_dns_name, provider_of
from tppkit.testpki.signing import sign_der

KINDS = ("qwac", "qseal")
_EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
# What only the issuer can know: key identifiers, addresses of its services, its policies.
ISSUERS_OWN = frozenset({
    oids.SUBJECT_KEY_IDENTIFIER, oids.AUTHORITY_KEY_IDENTIFIER, oids.CRL_DISTRIBUTION_POINTS,
    oids.AUTHORITY_INFORMATION_ACCESS, oids.CERTIFICATE_POLICIES,
})  # fmt: skip


def make_request(provider: Provider, kind: str, key: PrivateKey, *, policy: str = "gen", qscd: bool = False) -> bytes:
    """DER of a request for a provider's certificate.

    Args:
        provider: who asks.
        kind: `qwac` or `qseal`.
        key: the private key that the certificate is for.
        policy: of a QWAC, one of `profiles.QWAC_POLICIES`.
        qscd: ask for a QSealC whose key is in a qualified device.
    """
    if kind == "qwac":
        name, extensions = (
            profiles.qwac_name(provider, policy=policy),
            profiles.qwac_extensions(provider, policy=policy),
        )
    else:
        name = profiles.provider_name(provider, provider.name)
        extensions = profiles.qseal_extensions(provider, qscd=qscd)
    return write_request(name, [extension_of(*extension) for extension in extensions], key)


def write_request(subject: tuple[Attribute, ...], extensions: Sequence[Extension], key: PrivateKey) -> bytes:
    """DER of a request, signed.

    Args:
        subject: the name asked for.
        extensions: those asked for; what only the issuer can know is left out.
        key: the private key that the certificate is for.
    """
    wanted = write_extensions(e for e in extensions if e.oid not in ISSUERS_OWN)
    attribute = der.write_element(der.SEQUENCE, der.write_oid(_EXTENSION_REQUEST), der.write_element(der.SET, wanted))
    info = der.write_element(
        der.SEQUENCE,
        der.write_integer(0),
        write_name(subject),
        public_key_der(key),
        der.write_element(0xA0, attribute),
    )
    return sign_der(info, key)


def kind_of(request: EidasRequest) -> str:
    """`qwac` or `qseal`: by the QcType, else by what the key is for, else by the subject alternative name.

    Raises:
        ConfigurationError: `pki.request`: the request does not say.
    """
    known = request.extensions
    if request.qc.types in (("web",), ("eseal",)):
        return "qwac" if request.qc.types == ("web",) else "qseal"
    if "clientAuth" in known.extended_key_usage or known.dns_names:
        return "qwac"
    if "nonRepudiation" in known.key_usage:
        return "qseal"
    raise ConfigurationError("pki.request", "the request does not say whether it is for a QWAC or a QSealC: say it")


def requested_subject(request: EidasRequest) -> tuple[Attribute, ...]:
    """The name asked for, each attribute with the string type that RFC 5280 wants for it.

    Raises:
        ConfigurationError: `pki.request`: a text that no name has.
    """
    for oid, value in (attribute for rdn in request.subject.rdns for attribute in rdn):
        is_unicode = attribute_of(oid, value).tag == der.UTF8_STRING
        if not value.isprintable() or not (is_unicode or value.isascii()):
            raise ConfigurationError("pki.request", "the subject has characters that no name has: make a new request")
        if oid == oids.COUNTRY and len(value) != 2:
            raise ConfigurationError(
                "pki.request", f"the country {shown(value)} is not two letters: make a new request"
            )
    return attributes_of(request.subject)


def alternative_names(request: EidasRequest) -> tuple[x509.GeneralName, ...]:
    """Every subject alternative name that is asked for, of whatever form; none where they cannot be read."""
    try:
        return tuple(request.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return ()


def asks_for_ev(request: EidasRequest) -> bool:
    """Whether it asks for a website certificate that browsers believe: by policy, or by what only such a one says."""
    asked = {*request.extensions.policies, *request.extensions.present}
    stated = {oid for rdn in request.subject.rdns for oid, _ in rdn}
    return not asked.isdisjoint((*profiles.QWAC_POLICIES["ev"], profiles.REGISTRATION)) or not stated.isdisjoint(
        profiles.EV_ATTRIBUTES
    )


def requested_dns_names(request: EidasRequest, *, kind: str) -> tuple[str, ...]:
    """The DNS names that a QWAC is asked for; none for a QSealC.

    Raises:
        ConfigurationError: `pki.request`: names of other forms are asked for, which a QWAC of this PKI has not, or none that
            can be read, or what such a certificate never has; `pki.dns-name`.
    """
    names = alternative_names(request)
    if (request.qc.sscd and kind == "qwac") or (names and kind == "qseal"):
        odd = "a qualified device" if kind == "qwac" else "alternative names"
        raise ConfigurationError("pki.request", f"the request for a {kind} asks for {odd}: make a new one without")
    for name in names:
        if not isinstance(name, x509.DNSName):
            message = f"the request asks for an alternative name that is no DNS name ({type(name).__name__})"
            raise ConfigurationError("pki.request", f"{message}: make a new one without it")
    if not names and oids.SUBJECT_ALTERNATIVE_NAME in request.extensions.present:
        raise ConfigurationError("pki.request", "the alternative names of the request cannot be read: make a new one")
    for text in request.extensions.dns_names:
        if not is_dns_name(text):
            raise ConfigurationError("pki.dns-name", f"{shown(text)} is not a DNS name in lower case")
    return request.extensions.dns_names


def require_new_key(request: EidasRequest, *, kind: str, known: Mapping[str, PrivateKey]) -> bytes:
    """DER of the request's SubjectPublicKeyInfo, when its key is of a kind that such certificates have, and nobody else's.

    Args:
        request: the request.
        kind: `qwac` or `qseal`.
        known: keys of others by their labels.

    Raises:
        ConfigurationError: `pki.key-kind`; `pki.foreign-key`, another has the key.
    """
    key, kinds = request.public_key, SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
    if kind_of_public_key(key) not in kinds:
        what = f"{request.key.type}, {request.key.bits or request.key.curve}"
        raise ConfigurationError("pki.key-kind", f"the request's key ({what}) is none of {', '.join(kinds)}")
    owner = next((label for label, other in known.items() if other.public_key() == key), None)
    if owner is not None:
        message = f"the request's key is that of {owner}: make one for this request"
        raise ConfigurationError("pki.foreign-key", message)
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def provider_of_request(request: EidasRequest) -> Provider:
    """The provider that asks.

    Raises:
        ConfigurationError: as `make_provider`; `pki.request`, the request is malformed.
    """
    fault = first_error((*request.findings, *check_statement(request)))
    if fault is not None:
        raise ConfigurationError(
            "pki.request", f"the request is malformed, mend it first (pki csr --repair): {fault.message}"
        )
    return provider_of(request)
