"""The one form of signature that is trusted, and everything near it that is not."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import time
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from list_builder import Listed, ListFacts, State, sign, write_list
from lxml import etree
from signxml import SignatureConfiguration, XMLVerifier
from signxml.algorithms import CanonicalizationMethod, DigestAlgorithm, SignatureMethod

from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, VerificationError
from tppkit.testpki.certificate import Draft, for_key
from tppkit.trust.trusted_list.xml_document import parse_xml
from tppkit.trust.trusted_list.xml_signature import verify_and_remove_signature

DS = "{http://www.w3.org/2000/09/xmldsig#}"
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
MORE = "http://www.w3.org/2001/04/xmldsig-more#"
FORM, TRANSFORM = "trusted-list.signature-form", f".//{DS}Transform"


def verify(data: bytes, *signers):
    root = parse_xml(data, what="the list")
    return verify_and_remove_signature(root, signers={one.certificate.sha256 for one in signers}, what="the list"), root


def refusal(data: bytes, *signers) -> VerificationError:
    with pytest.raises(VerificationError) as refused:
        verify(data, *signers)
    return refused.value


@pytest.fixture(scope="module")
def stranger(certify):
    return certify("Scheme operator", ca=False)


@pytest.fixture(scope="module")
def plain(certify) -> str:
    issuing = certify("Web CA").certificate
    return write_list(ListFacts(providers={"Provider": [Listed(issuing, [State("granted", issuing.not_before)])]}))


@pytest.fixture(scope="module")
def signed(plain, operator) -> bytes:
    return sign(plain, operator)


def edited(data: bytes, edit) -> bytes:
    """The document after `edit(root, signature)`."""
    root = etree.fromstring(data)
    edit(root, root.find(f"{DS}Signature"))
    return etree.tostring(root)


def test_what_signxml_signed_is_accepted_and_its_signer_is_returned(signed, operator):
    signer, root = verify(signed, operator)
    assert signer == operator.certificate
    assert root.find(f"{DS}Signature") is None


def test_what_is_accepted_signxml_accepts_too(signed, operator):
    configuration = SignatureConfiguration(expect_references=3, verification_time=operator.certificate.not_before)
    results = XMLVerifier().verify(signed, x509_cert=operator.certificate.x509, expect_config=configuration)
    assert results[0].signed_xml.find("{*}SchemeInformation") is not None


def test_each_method_is_accepted(plain, rsa_pki, operator):
    by = SignatureMethod
    for signer, methods in (
        (rsa_pki.qseal, (by.RSA_SHA256, by.RSA_SHA384, by.RSA_SHA512)),
        (rsa_pki.qseal, (by.SHA256_RSA_MGF1, by.SHA384_RSA_MGF1, by.SHA512_RSA_MGF1)),
        (operator, (by.ECDSA_SHA256, by.ECDSA_SHA384, by.ECDSA_SHA512)),
    ):
        for method, digest in zip(
            methods, (DigestAlgorithm.SHA256, DigestAlgorithm.SHA384, DigestAlgorithm.SHA512), strict=True
        ):
            assert verify(sign(plain, signer, method=method, digest=digest), signer)[0] == signer.certificate, method


def test_a_list_of_another_signer_of_the_same_name_is_refused(plain, operator, stranger):
    refused = refusal(sign(plain, stranger), operator)
    assert refused.code == "trusted-list.signer"
    assert stranger.certificate.sha256 in refused.message


def test_a_forged_signature_under_the_operators_certificate_is_refused(plain, operator, stranger):
    forged = sign(plain, SimpleNamespace(certificate=operator.certificate, key=stranger.key))
    assert refusal(forged, operator).code == "trusted-list.signature"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"/granted<", b"/withdrawn<"),
        (b"2026-05-01", b"2026-05-02"),
        (b">PT<", b">ES<"),
        (b'TSLTag="http:', b'TSLTag="https:'),
    ],
)
def test_a_change_of_the_content_is_refused(signed, operator, old, new):
    assert signed.count(old) >= 1
    assert refusal(signed.replace(old, new, 1), operator).code == "trusted-list.signature"


def test_a_change_of_the_signed_properties_is_refused(signed, operator):
    changed = re.sub(rb"(SigningTime>)20", rb"\g<1>19", signed)
    assert changed != signed
    assert refusal(changed, operator).code == "trusted-list.signature"


def test_a_comment_within_a_text_does_not_cut_it(signed, operator):
    """Canonical XML leaves comments out, so the signature holds; the text must read whole all the same."""
    _, root = verify(signed.replace(b"Svcstatus/granted<", b"Svcstatus/gr<!-- -->anted<"), operator)
    status = root.find(".//{http://uri.etsi.org/02231/v2#}ServiceStatus")
    assert status.text.endswith("/granted")


def test_a_signed_list_wrapped_in_another_is_refused(signed, plain, operator):
    """Signature wrapping: the signed list moves into an object of the signature, another list stands around it."""

    def wrap(root, signature):
        original = copy.deepcopy(root)
        original.remove(original.find(f"{DS}Signature"))
        etree.SubElement(signature, f"{DS}Object").append(original)
        for status in root.findall(".//{*}ServiceStatus")[:1]:
            status.text = "http://uri.etsi.org/TrstSvc/TrustedList/Svcstatus/withdrawn"

    assert refusal(edited(signed, wrap), operator).code == "trusted-list.signature"


def test_a_list_around_a_signed_list_is_refused(signed, operator):
    around = (
        b'<TrustServiceStatusList xmlns="http://uri.etsi.org/02231/v2#">'
        + signed.partition(b"?>")[2]
        + b"</TrustServiceStatusList>"
    )
    assert refusal(around, operator).code == FORM


@pytest.fixture(scope="module")
def by_identifier(operator) -> bytes:
    """A list whose signature refers to the root element by its identifier, as annex B allows."""
    data = sign(write_list(ListFacts(identifier="List")), operator)
    assert b'URI="#List"' in data
    return data


def test_a_reference_to_the_root_element_by_its_identifier_covers_the_list(by_identifier, operator):
    assert verify(by_identifier, operator)[0] == operator.certificate
    changed = by_identifier.replace(b">PT<", b">ES<", 1)
    assert refusal(changed, operator).code == "trusted-list.signature"


def _move_below_another_root(root, signature):
    original = copy.deepcopy(root)
    original.remove(original.find(f"{DS}Signature"))
    etree.SubElement(signature, f"{DS}Object").append(original)
    root.find("{*}SchemeInformation/{*}SchemeTerritory").text = "ES"


BY_IDENTIFIER = {
    "the signed list inside the signature": lambda root, s: (_move_below_another_root(root, s), root.attrib.pop("Id")),
    "the same, under both roots": _move_below_another_root,
    "under another attribute": lambda root, s: root.set("id", root.attrib.pop("Id")) or root[0].set("ID", "List"),
    "of no element": lambda root, s: root.attrib.pop("Id"),
}  # fmt: skip


@pytest.mark.parametrize("edit", BY_IDENTIFIER.values(), ids=BY_IDENTIFIER)
def test_an_identifier_of_another_element_than_the_root_does_not_cover_the_list(by_identifier, operator, edit):
    assert refusal(edited(by_identifier, edit), operator).code == FORM


@pytest.mark.parametrize("below", ["the root element", "the signature"])
def test_what_is_read_is_what_the_identifier_covers(by_identifier, operator, below):
    """A second scheme information in front of the signed one, where a reader would find it first."""

    def prepend(root, signature):
        false = copy.deepcopy(root[0])
        false.find("{*}SchemeTerritory").text = "ES"
        (root if below == "the root element" else signature).insert(0, false)

    if below == "the root element":
        assert refusal(edited(by_identifier, prepend), operator).code == "trusted-list.signature"
    else:  # not covered, so it is not in the tree that is read
        _, root = verify(edited(by_identifier, prepend), operator)
        assert [found.text for found in root.findall(".//{*}SchemeTerritory")] == ["PT"]


def signed_again(data: bytes, operator, edit) -> bytes:
    """The document after `edit(root, signature)`, with a right digest for each part and a right signature."""

    def edit_and_sign(root, signature):
        edit(root, signature)
        for reference in signature.iter(f"{DS}Reference"):
            part = root.xpath("//*[@Id = $id]", id=reference.get("URI")[1:]) or [None]
            if part[0] is None or part[0] is root:
                continue
            transforms = [one.get("Algorithm") for one in reference.iter(f"{DS}Transform")]
            octets = etree.tostring(part[0], method="c14n", exclusive=EXCLUSIVE in transforms, with_comments=False)
            reference.find(f"{DS}DigestValue").text = base64.b64encode(hashlib.sha256(octets).digest())
        octets = etree.tostring(signature.find(f"{DS}SignedInfo"), method="c14n", exclusive=True, with_comments=False)
        r, s = decode_dss_signature(operator.key.sign(octets, ec.ECDSA(hashes.SHA256())))
        size = (operator.key.key_size + 7) // 8
        value = r.to_bytes(size, "big") + s.to_bytes(size, "big")
        signature.find(f"{DS}SignatureValue").text = base64.b64encode(value)

    return edited(data, edit_and_sign)


def _transforms(*algorithms: str):
    """An edit that gives the reference to the signed properties these transforms."""

    def edit(root, signature):
        transforms = signature.find(f".//{DS}Reference[@Type]/{DS}Transforms")
        transforms[:] = [transforms.makeelement(f"{DS}Transform", Algorithm=one) for one in algorithms]
        if not algorithms:
            transforms.getparent().remove(transforms)

    return edit


CANONICAL = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
ENVELOPED = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"


@pytest.mark.parametrize("transforms", [(), (CANONICAL,), (EXCLUSIVE,)])
def test_a_part_of_the_signature_may_be_canonicalized_in_three_ways(signed, operator, transforms):
    data = signed_again(signed, operator, _transforms(*transforms))
    assert verify(data, operator)[0] == operator.certificate
    changed = re.sub(rb"(SigningTime>)20", rb"\g<1>19", data)
    assert refusal(changed, operator).code == "trusted-list.signature"
    XMLVerifier().verify(
        data, x509_cert=operator.certificate.x509,
        expect_config=SignatureConfiguration(expect_references=3, verification_time=operator.certificate.not_before),
    )  # fmt: skip


def _reference(**attributes: str):
    """An edit that adds a copy of the reference to the list, with other attributes."""

    def edit(root, signature):
        original = next(one for one in signature[0] if one.get("URI") == "")
        another = copy.deepcopy(original)
        another.attrib.update(attributes)
        original.addnext(another)
        return another

    return edit


def _whole_as_part(uri: str):
    def edit(root, signature):
        root.set("Id", "List")
        transforms = _reference(URI=uri)(root, signature).find(f"{DS}Transforms")
        del transforms[0]

    return edit


FORMS = {
    "XPath": _transforms("http://www.w3.org/TR/1999/REC-xpath-19991116"),
    "XSLT": _transforms("http://www.w3.org/TR/1999/REC-xslt-19991116"),
    "with comments": _transforms(f"{CANONICAL}#WithComments"),
    "exclusive with comments": _transforms(f"{EXCLUSIVE}WithComments"),
    "Canonical XML 1.1": _transforms("http://www.w3.org/2006/12/xml-c14n11"),
    "base64": _transforms("http://www.w3.org/2000/09/xmldsig#base64"),
    "enveloped alone": _transforms(ENVELOPED),
    "enveloped for a part": _transforms(ENVELOPED, EXCLUSIVE),
    "canonicalized twice": _transforms(EXCLUSIVE, CANONICAL),
    "the list covered twice": _reference(),
    "the list covered twice, once by its identifier": lambda root, s: root.set("Id", "List") or _reference(URI="#List")(root, s),
    "the list as a part": _whole_as_part(""),
    "the list as a part, by its identifier": _whole_as_part("#List"),
    "only a part of the list covered": lambda root, s: (
        root[0].set("Id", "Part"), next(one for one in s[0] if one.get("URI") == "").set("URI", "#Part"),
    ),
    "the list not canonicalized exclusively": lambda root, s: s.findall(TRANSFORM)[1].set("Algorithm", CANONICAL),
    "the list with its signature": lambda root, s: s.find(f".//{DS}Transforms").remove(s.find(TRANSFORM)),
    "properties twice": lambda root, s: s[0].append(copy.deepcopy(s[0].find(f"{DS}Reference[@Type]"))),
    "the type on another part": lambda root, s: [
        one.set("URI", "#Other") for one in s[0].findall(f"{DS}Reference[@Type]") if not s.find(f"{DS}KeyInfo").set("Id", "Other")
    ],
}  # fmt: skip


@pytest.mark.parametrize("edit", FORMS.values(), ids=FORMS)
def test_a_form_that_the_standard_does_not_have_is_refused_even_if_its_signer_made_it(signed, operator, edit):
    assert refusal(signed_again(signed, operator, edit), operator).code == FORM


@pytest.mark.parametrize("address", [b"file:///etc/passwd", b"http://127.0.0.1:9/x", b"#", b"List"])
def test_a_reference_out_of_the_document_is_refused_and_not_followed(signed, operator, address):
    assert refusal(signed.replace(b'URI=""', b'URI="' + address + b'"'), operator).code == FORM


EDITS = {
    "removed": (lambda root, s: root.remove(s), "trusted-list.unsigned"),
    "twice": (lambda root, s: root.append(copy.deepcopy(s)), FORM),
    "below the root element": (lambda root, s: root.find("{*}SchemeInformation").append(s), FORM),
    "text behind it": (lambda root, s: setattr(s, "tail", "\n"), "trusted-list.signature"),
    "identifier of the properties on two elements": (
        lambda root, s: root.find(".//{*}TrustServiceProviderList").set("Id", s.find(".//{*}SignedProperties").get("Id")), FORM,
    ),
    "a further transform": (
        lambda root, s: s.find(f".//{DS}Transforms").append(copy.deepcopy(s.findall(TRANSFORM)[1])), FORM,
    ),
    "a transform with content": (
        lambda root, s: etree.SubElement(s.findall(TRANSFORM)[1], f"{{{EXCLUSIVE}}}InclusiveNamespaces", PrefixList="ds"), FORM,
    ),
    "no signed properties": (lambda root, s: s[0].remove(s[0].find(f"{DS}Reference[@Type]")), FORM),
    "method of another kind of key": (
        lambda root, s: s.find(f".//{DS}SignatureMethod").set("Algorithm", f"{MORE}rsa-sha256"), "trusted-list.signature",
    ),
    "no certificate": (lambda root, s: s.find(f"{DS}KeyInfo").clear(), "trusted-list.signer"),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "code"), EDITS.values(), ids=EDITS)
def test_an_edited_signature_is_refused(signed, operator, edit, code):
    assert refusal(edited(signed, edit), operator).code == code


OTHERS = {
    "Transform": (
        "http://www.w3.org/TR/1999/REC-xslt-19991116", "http://www.w3.org/TR/1999/REC-xpath-19991116",
        "http://www.w3.org/2002/06/xmldsig-filter2", "http://www.w3.org/2000/09/xmldsig#base64",
        f"{EXCLUSIVE}WithComments", "",
    ),
    "SignatureMethod": (
        "http://www.w3.org/2000/09/xmldsig#rsa-sha1", "http://www.w3.org/2000/09/xmldsig#hmac-sha1",
        f"{MORE}hmac-sha256", "http://www.w3.org/2000/09/xmldsig#dsa-sha1", "",
    ),
    "DigestMethod": ("http://www.w3.org/2000/09/xmldsig#sha1", f"{MORE}md5", ""),
}  # fmt: skip


@pytest.mark.parametrize(("tag", "algorithm"), [(tag, one) for tag, some in OTHERS.items() for one in some])
def test_any_other_algorithm_is_refused(signed, operator, tag, algorithm):
    for place in range(3):  # of transforms: enveloped, canonicalization, that of the properties

        def change(root, signature, place=place):
            elements = signature.findall(f".//{DS}{tag}")
            elements[place % len(elements)].set("Algorithm", algorithm)

        assert refusal(edited(signed, change), operator).code == FORM


@pytest.mark.parametrize("namespace", [b"x", b"//uri.etsi.org", b"a/b"])
@pytest.mark.parametrize("place", [b"<TrustServiceStatusList", b"<ds:SignedInfo", b"<xades:SignedProperties"])
def test_a_namespace_that_is_not_an_absolute_uri_is_refused(signed, operator, place, namespace):
    assert place in signed
    changed = signed.replace(place, place + b' xmlns:other="' + namespace + b'"')
    assert refusal(changed, operator).code == FORM


def test_the_name_of_an_unknown_algorithm_is_shortened(signed, operator):
    long = edited(signed, lambda root, s: s.find(f".//{DS}DigestMethod").set("Algorithm", "x\n" * 100_000))
    assert len(refusal(long, operator).message) < 400


def test_a_short_rsa_key_is_refused(plain, operator):
    key = rsa.generate_private_key(65537, 1024)
    draft = for_key(Draft.of(operator.certificate), key.public_key())
    certificate = EidasCertificate.from_der(draft.sign(operator.key))
    weak = SimpleNamespace(certificate=certificate, key=key)
    assert refusal(sign(plain, weak, method=SignatureMethod.RSA_SHA256), weak).code == "trusted-list.signature"


def test_inclusive_canonicalization_is_refused(plain, operator):
    inclusive = sign(plain, operator, canonicalization=CanonicalizationMethod.CANONICAL_XML_1_0)
    assert refusal(inclusive, operator).code == FORM


@pytest.mark.parametrize("value", ["", "AAAA", "=", "not base64", base64.b64encode(bytes(64)).decode()])
def test_a_signature_value_that_is_invalid_is_refused(signed, operator, value):
    def change(root, signature):
        signature.find(f"{DS}SignatureValue").text = value

    assert refusal(edited(signed, change), operator).code in ("trusted-list.signature", FORM)


def test_without_expected_signers_no_signer_is_trusted(signed):
    assert refusal(signed).code == "trusted-list.signer"


def test_what_is_not_a_document_is_not_read(operator):
    with pytest.raises(FormatError):
        verify(b"not XML", operator)


@pytest.mark.slow
def test_a_signature_of_thousands_of_parts_is_refused_in_time(signed, operator):
    def multiply(tag):
        def edit(root, signature):
            element = signature.find(f".//{DS}{tag}")
            for _ in range(20_000):
                element.addnext(copy.deepcopy(element))

        return edited(signed, edit)

    started = time.process_time()
    assert refusal(multiply("Reference"), operator).code == FORM
    assert refusal(multiply("Transform"), operator).code == FORM
    assert refusal(multiply("DigestMethod"), operator).code == FORM
    assert time.process_time() - started < 30


def test_only_the_first_certificates_of_a_signature_are_looked_at(signed, operator, stranger):
    def prepend(root, signature):
        element = signature.find(f".//{DS}X509Certificate")
        for _ in range(1000):
            other = copy.deepcopy(element)
            other.text = base64.b64encode(stranger.certificate.der).decode()
            element.addprevious(other)

    assert refusal(edited(signed, prepend), operator).code == "trusted-list.signer"
