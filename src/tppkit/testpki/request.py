"""Certificate signing requests as a qualified trust service provider expects them: names, key, and the extensions asked for.

Sources: RFC 2986 section 4 (PKCS #10), RFC 2985 section 5.4.2 (extensionRequest).
"""

from __future__ import annotations

from tppkit.certificates import der
from tppkit.testpki.draft import Draft, write_extension, write_name
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.signing import sign_der

_EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
# What a provider asks for; the rest (key identifiers, addresses of services, policies) is the authority's to write.
_ISSUERS_OWN = frozenset({"2.5.29.14", "2.5.29.35", "2.5.29.31", "1.3.6.1.5.5.7.1.1", "2.5.29.32"})


def write_request(draft: Draft, key: PrivateKey) -> bytes:
    """DER of a request for the certificate that is drafted.

    Args:
        draft: the certificate; what only its issuer can know is left out.
        key: the private key that the certificate is for.
    """
    wanted = [extension for extension in draft.extensions if extension.oid not in _ISSUERS_OWN]
    extensions = der.write_element(der.SEQUENCE, *map(write_extension, wanted))
    attribute = der.write_element(
        der.SEQUENCE, der.write_oid(_EXTENSION_REQUEST), der.write_element(der.SET, extensions)
    )
    info = der.write_element(
        der.SEQUENCE, der.write_integer(0), write_name(draft.subject), draft.public_key,
        der.write_element(0xA0, attribute if wanted else b""),
    )  # fmt: skip
    return sign_der(info, key)
