"""Subject names as trusted lists write them."""

from __future__ import annotations

import pytest

from tppkit.certificates import parse_name
from tppkit.errors import FormatError
from tppkit.trust.trusted_list.names import MAX_LISTED_NAME, parse_listed_name
from tppkit.trust.trusted_list.services import name_key


@pytest.mark.parametrize(
    ("listed", "plain"),
    [
        ('CN="Example, S.A.", C=PT', r"CN=Example\, S.A.,C=PT"),
        ("OID.2.5.4.97=VATPT-1,C=PT", "2.5.4.97=VATPT-1,C=PT"),
        ("C=PT, O=One, CN=Two", "CN=Two,O=One,C=PT"),
        ("SERIALNUMBER=1,organizationIdentifier=VATPT-1,C=PT", "2.5.4.5=1,2.5.4.97=VATPT-1,C=PT"),
        ('O="Quoted \\"inner\\" + more",C=PT', r"O=Quoted \"inner\" \+ more,C=PT"),
        ("CN=EXAMPLE  ca,C=pt", "CN=Example CA,C=PT"),
        ("EMAIL=a@b.example,CN=x", "1.2.840.113549.1.9.1=a@b.example,CN=x"),
    ],
)
def test_the_same_name_is_read_from_other_styles(listed, plain):
    assert name_key(parse_listed_name(listed)) == name_key(parse_name(plain))


def test_other_names_stay_other():
    assert name_key(parse_listed_name("CN=Example CA 1,C=PT")) != name_key(parse_listed_name("CN=Example CA 2,C=PT"))


@pytest.mark.parametrize("text", ["no name", "CN", 'CN="open,C=PT', "x" * (MAX_LISTED_NAME + 1), "CN=" + "\\" * 99])
def test_what_is_not_a_name_is_refused(text):
    with pytest.raises(FormatError) as refused:
        parse_listed_name(text)
    assert refused.value.code == "name.malformed"
