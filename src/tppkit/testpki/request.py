"""Certificate signing requests as a qualified trust service provider expects them.

Sources: RFC 2986 section 4 (PKCS #10), RFC 2985 section 5.4.2 (extensionRequest), ETSI TS 119 495 clause 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from tppkit.certificates import EidasRequest, check_statement, der, oids
from tppkit.certificates.rules import first_error
from tppkit.errors import ConfigurationError
from tppkit.testpki import profiles
from tppkit.testpki.draft import Attribute, Extension, extension_of, write_extensions, write_name
from tppkit.testpki.keys import PrivateKey, public_key_der
from tppkit.testpki.provider import Provider, provider_of
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
