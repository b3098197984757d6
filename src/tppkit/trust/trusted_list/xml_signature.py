"""The enveloped XAdES signature of a trusted list, in the one form that the standard allows.

Most of this file restricts the form: which references, which transforms, where the signature is. A general library such as
signxml would only add the arithmetic, in three times the time; the tests use it as a second opinion.

The verified tree is the tree that is read: the signature is removed from it, and the digest is computed over the rest.

Source: ETSI TS 119 612 annex B, Decision (EU) 2015/1505 annex II, XML Signature Syntax and Processing 1.1, RFC 9231.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from tppkit._encoding import decode_base64, shown
from tppkit.certificates import EidasCertificate
from tppkit.certificates.key_facts import LEGACY_RSA_BITS
from tppkit.errors import FormatError, VerificationError
from tppkit.trust.path.strength import is_signature_of
from tppkit.trust.trusted_list.xml_document import Element, load_etree

DS = "{http://www.w3.org/2000/09/xmldsig#}"
_XADES = "{http://uri.etsi.org/01903/v1.3.2#}"
_ENVELOPED = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
_EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
# Annex B fixes the transforms for the list. Without any, a part is in Canonical XML 1.0 (XML Signature 1.1 section 4.4.3.2).
_LIST_TRANSFORMS = (_ENVELOPED, _EXCLUSIVE)
_PART_TRANSFORMS = frozenset({(), ("http://www.w3.org/TR/2001/REC-xml-c14n-20010315",), (_EXCLUSIVE,)})
_SIGNED_PROPERTIES = "http://uri.etsi.org/01903#SignedProperties"
_CLAUSE = "TS 119 612 annex B"
_MAX_REFERENCES = 4
_MAX_CERTIFICATES = 8

_DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        "http://www.w3.org/2001/04/xmlenc#sha256": "sha256",
        "http://www.w3.org/2001/04/xmldsig-more#sha384": "sha384",
        "http://www.w3.org/2001/04/xmlenc#sha512": "sha512",
    }
)


class _Method(NamedTuple):
    """A signature method: the type of key, the hash, and the padding of RSASSA-PSS."""

    key: type[rsa.RSAPublicKey | ec.EllipticCurvePublicKey]
    hash: hashes.HashAlgorithm
    pss: padding.PSS | None = None


def _pss(strong: hashes.HashAlgorithm) -> _Method:
    return _Method(rsa.RSAPublicKey, strong, padding.PSS(padding.MGF1(strong), strong.digest_size))


_METHODS: Mapping[str, _Method] = MappingProxyType(
    {
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256": _Method(rsa.RSAPublicKey, hashes.SHA256()),
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha384": _Method(rsa.RSAPublicKey, hashes.SHA384()),
        "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512": _Method(rsa.RSAPublicKey, hashes.SHA512()),
        "http://www.w3.org/2007/05/xmldsig-more#sha256-rsa-MGF1": _pss(hashes.SHA256()),
        "http://www.w3.org/2007/05/xmldsig-more#sha384-rsa-MGF1": _pss(hashes.SHA384()),
        "http://www.w3.org/2007/05/xmldsig-more#sha512-rsa-MGF1": _pss(hashes.SHA512()),
        "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256": _Method(ec.EllipticCurvePublicKey, hashes.SHA256()),
        "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384": _Method(ec.EllipticCurvePublicKey, hashes.SHA384()),
        "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512": _Method(ec.EllipticCurvePublicKey, hashes.SHA512()),
    }
)


def verify_and_remove_signature(root: Element, *, signers: Collection[str], what: str) -> EidasCertificate:
    """Verify the signature over a whole document and remove it from the tree, so that the tree is what was signed.

    Args:
        root: the root element; changed.
        signers: SHA-256 (lower-case hexadecimal) of the certificates that may sign.
        what: the name of the document in errors.

    Returns:
        The certificate that signed; its validity is not checked here.

    Raises:
        VerificationError: `trusted-list.unsigned`, `trusted-list.signature-form`, `trusted-list.signer`,
            `trusted-list.signature`.
    """
    # 1 one signature, in its place  2 the allowed form  3 an expected signer  4 the signature's value
    # 5 the digests of the parts inside the signature  6 the digest of the document without the signature
    signature = _one_signature(root, what)  # 1
    information = _child(signature, f"{DS}SignedInfo", what)
    references = [_Reference.read(element, what) for element in _references(information, what)]  # 2
    document = _document_reference(references, signature, root, what)
    certificates = list(_signers(signature, signers))  # 3
    if not certificates:
        raise VerificationError(
            "trusted-list.signer",
            f"{what} is signed by {_claimed_signer(signature)}, not by one of the {len(signers)} expected signers",
            clause=_CLAUSE,
        )
    signer = _verify_value(signature, information, certificates, what)  # 4
    for reference in references:  # 5
        if reference is not document:
            part = _inside(signature, root, reference.target, what)
            reference.verify(_canonical(part, what, exclusive=reference.transforms == (_EXCLUSIVE,)), what)
    _remove(signature)
    document.verify(_canonical(root.getroottree(), what), what)  # 6
    return signer


def _form(what: str, why: str) -> VerificationError:
    return VerificationError(
        "trusted-list.signature-form",
        f"the signature of {what} does not have the form of a trusted list: {why}",
        clause=_CLAUSE,
    )


def _one_signature(root: Element, what: str) -> Element:
    found = list(root.iter(f"{DS}Signature"))
    if not found:
        raise VerificationError("trusted-list.unsigned", f"{what} is not signed", clause=_CLAUSE)
    if len(found) > 1 or found[0].getparent() is not root:
        raise _form(what, "there must be one signature, directly in the root element")
    return found[0]


def _child(parent: Element, tag: str, what: str) -> Element:
    found = parent.findall(tag)
    if len(found) != 1:
        raise _form(what, f"{len(found)} elements {tag.rpartition('}')[2]} instead of one")
    return found[0]


def _references(information: Element, what: str) -> list[Element]:
    method, *rest = list(information) or [None]
    # Without parameters: a list of inclusive prefixes would depend on the surrounding document.
    stated = None if method is None else (method.tag, method.get("Algorithm"), len(method))
    if stated != (f"{DS}CanonicalizationMethod", _EXCLUSIVE, 0):
        raise _form(what, "its SignedInfo is not canonicalized by exclusive XML canonicalization without comments")
    if len(rest) < 2 or rest[0].tag != f"{DS}SignatureMethod" or any(r.tag != f"{DS}Reference" for r in rest[1:]):
        raise _form(what, "its SignedInfo contains other elements than a method and references")
    if len(rest) - 1 > _MAX_REFERENCES:
        raise _form(what, f"{len(rest) - 1} references are too many")
    return rest[1:]


@dataclass(frozen=True, slots=True)
class _Reference:
    """One digest of the signature: `target` is empty for the whole document, else an identifier."""

    target: str
    type: str | None
    transforms: tuple[str, ...]
    digest: str
    value: bytes

    @classmethod
    def read(cls, element: Element, what: str) -> _Reference:
        uri = element.get("URI")
        if uri is None or (uri and not uri.startswith("#")) or uri == "#":
            raise _form(what, "a reference points outside the document")
        elements = element.findall(f"{DS}Transforms/{DS}Transform")
        transforms = tuple(one.get("Algorithm") for one in elements)
        if transforms not in (_LIST_TRANSFORMS, *_PART_TRANSFORMS) or any(len(transform) for transform in elements):
            raise _form(
                what, "the transforms of a reference are not those that the standard allows for the list, or a part"
            )
        algorithm = _child(element, f"{DS}DigestMethod", what).get("Algorithm")
        if algorithm not in _DIGESTS:
            raise _form(what, f"the digest algorithm {shown(algorithm or '')} is not allowed")
        return cls(uri[1:], element.get("Type"), transforms, _DIGESTS[algorithm], _binary(element, "DigestValue", what))

    def verify(self, octets: bytes, what: str) -> None:
        if hashlib.new(self.digest, octets).digest() != self.value:
            part = f"its part {self.target}" if self.target else "its content"
            raise VerificationError(
                "trusted-list.signature",
                f"{what} was changed after it was signed: {part} has another digest",
                clause=_CLAUSE,
            )


def _document_reference(references: list[_Reference], signature: Element, root: Element, what: str) -> _Reference:
    whole = [reference for reference in references if reference.transforms == _LIST_TRANSFORMS]
    if len(whole) != 1 or (whole[0].target and _named(root, whole[0].target) != [root]):
        raise _form(what, "exactly one reference must cover the whole document, without the signature")
    properties = [reference for reference in references if reference.type == _SIGNED_PROPERTIES]
    if len(properties) != 1 or _inside(signature, root, properties[0].target, what).tag != f"{_XADES}SignedProperties":
        raise _form(what, "its signed properties are not covered")
    return whole[0]


def _named(root: Element, identifier: str) -> list[Element]:
    found: list[Element] = root.xpath("//*[@Id = $i or @ID = $i or @id = $i]", i=identifier)
    return found


def _inside(signature: Element, root: Element, identifier: str, what: str) -> Element:
    """The element with this identifier: there must be one in the whole document, and inside the signature."""
    found = _named(root, identifier)
    if len(found) != 1 or signature not in found[0].iterancestors():
        raise _form(what, f"the reference to {identifier[:60]!r} does not name one element inside the signature")
    return found[0]


def _binary(parent: Element, name: str, what: str) -> bytes:
    text = _child(parent, f"{DS}{name}", what).text or ""
    try:
        return decode_base64("".join(text.split()), what=f"the {name} of {what}")
    except FormatError as e:
        raise _form(what, e.message) from e


def _certificates(signature: Element) -> Iterator[bytes]:
    for element in signature.findall(f"{DS}KeyInfo/{DS}X509Data/{DS}X509Certificate")[:_MAX_CERTIFICATES]:
        try:
            yield decode_base64("".join((element.text or "").split()), what="a certificate")
        except FormatError:
            continue


def _signers(signature: Element, signers: Collection[str]) -> Iterator[EidasCertificate]:
    for data in _certificates(signature):
        if hashlib.sha256(data).hexdigest() in signers:
            yield EidasCertificate.from_der(data)


def _claimed_signer(signature: Element) -> str:
    for data in _certificates(signature):
        try:
            return f"{EidasCertificate.from_der(data).subject} (sha256 {hashlib.sha256(data).hexdigest()})"
        except FormatError:
            continue
    return "an unnamed signer"


def _verify_value(
    signature: Element, information: Element, certificates: list[EidasCertificate], what: str
) -> EidasCertificate:
    algorithm = _child(information, f"{DS}SignatureMethod", what).get("Algorithm")
    method = _METHODS.get(algorithm)
    if method is None:
        raise _form(what, f"the signature algorithm {shown(algorithm or '')} is not allowed")
    value, octets = _binary(signature, "SignatureValue", what), _canonical(information, what)
    for certificate in certificates:
        if _verifies(certificate, method, value, octets):
            return certificate
    raise VerificationError(
        "trusted-list.signature", f"the signature of {what} does not verify with its signer's key", clause=_CLAUSE
    )


def _verifies(certificate: EidasCertificate, method: _Method, value: bytes, octets: bytes) -> bool:
    try:
        key = certificate.public_key
    except FormatError:
        return False
    if not isinstance(key, method.key) or (isinstance(key, rsa.RSAPublicKey) and key.key_size < LEGACY_RSA_BITS):
        return False
    if isinstance(key, ec.EllipticCurvePublicKey):
        size = (key.key_size + 7) // 8
        if len(value) != 2 * size:
            return False
        value = encode_dss_signature(int.from_bytes(value[:size], "big"), int.from_bytes(value[size:], "big"))
    return is_signature_of(key, signature=value, data=octets, hash_algorithm=method.hash, pss=method.pss)


def _canonical(part: Any, what: str, *, exclusive: bool = True) -> bytes:
    etree = load_etree()
    try:
        octets: bytes = etree.tostring(part, method="c14n", exclusive=exclusive, with_comments=False)
    except etree.C14NError as e:  # Canonical XML 1.0 refuses relative namespace URIs
        raise _form(what, "it cannot be canonicalized, because a namespace in it is not an absolute URI") from e
    return octets


def _remove(signature: Element) -> None:
    # The text behind the signature is part of the document (XML Signature 1.1 section 6.6.4); `remove` would drop it.
    parent, before, tail = signature.getparent(), signature.getprevious(), signature.tail
    parent.remove(signature)
    if tail and before is not None:
        before.tail = (before.tail or "") + tail
    elif tail:
        parent.text = (parent.text or "") + tail
