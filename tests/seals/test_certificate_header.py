"""The certificate's header in each form."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit._encoding import encode_base64
from tppkit.errors import FormatError
from tppkit.seals import CertificateForm
from tppkit.seals.certificate_header import MAX_CERTIFICATE_HEADER, read_certificate, write_certificate

FORMS = pytest.mark.parametrize("form", CertificateForm)
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def fault(value: str, form: CertificateForm) -> str:
    with pytest.raises(FormatError) as caught:
        read_certificate(value, form)
    return caught.value.code


@FORMS
def test_what_is_written_is_one_line_and_reads_back_in_its_own_form_alone(form, pki):
    value = write_certificate(pki.qseal.certificate, form)
    assert value.isascii()
    assert value.isprintable()
    assert read_certificate(value, form) == pki.qseal.certificate
    for other in CertificateForm:
        if other is not form:
            assert fault(value, other).split(".")[0] in {"base64", "certificate", "der"}
    assert fault("A" * (MAX_CERTIFICATE_HEADER + 1), form) == "certificate.too-large"


@pytest.mark.parametrize("gap", [" ", "  ", "\t"])
def test_pem_may_have_spaces_where_its_line_breaks_were(gap, pki):
    encoded = encode_base64(pki.qseal.certificate.der)
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    value = gap.join([BEGIN, *lines, END])
    assert read_certificate(value, CertificateForm.PEM) == pki.qseal.certificate


@pytest.mark.parametrize(
    "template",
    ["{pem}{pem}", "x{pem}", "{pem}x", "{body}", f"{BEGIN}{{body}}", f"{BEGIN}{END}", f"{BEGIN}{{body}}!{END}"],
)
def test_pem_with_anything_else_is_refused(template, pki):
    body = encode_base64(pki.qseal.certificate.der)
    value = template.format(pem=f"{BEGIN}{body}{END}", body=body)
    for text, form in ((value, CertificateForm.PEM), (encode_base64(value.encode()), CertificateForm.BASE64_PEM)):
        assert fault(text, form) in {"certificate.malformed", "base64.malformed"}


@given(st.text() | st.text(alphabet=f"{BEGIN}{END}MII= \n", max_size=200), st.sampled_from(CertificateForm))
def test_only_format_error_escapes(value, form):
    with suppress(FormatError):
        read_certificate(value, form)
