"""The README of a test PKI's folder: what each file is for, and how to use it."""

from __future__ import annotations

from tppkit.testpki.authority import Pki

_GUIDE = """# Test PKI of {name}

TEST KEYS ONLY: nothing real may ever trust anything in this folder. `manifest.json` names every file for programs.

| file | what it is |
|---|---|
| `root.pem` | the trust anchor; believe only this |
| `issuing-ca-qwac.pem`, `issuing-ca-qseal.pem` | the authorities that issue QWACs and QSealCs |
| `qwac.pem` | the provider's QWAC, for mutual TLS ({organization}, {roles}) |
| `qseal.pem` | the provider's QSealC, for the Signature header |
| `other-qwac.pem`, `other-qseal.pem` | another organisation ({other}), for what must be refused |
| `server.pem` | a TLS server on localhost |
| `ocsp-qwac.pem`, `ocsp-qseal.pem` | who answers OCSP for each issuing authority |
| `tsa.pem` | the time-stamping authority (RFC 3161) |
| `lotl-signer.pem`, `list-signer.pem` | who signs the trusted lists |
| `callback-test.key`, `callback-live.key` and `.pub` | P-256 keys that sign the legacy interface's callbacks |
| `*.crl` | revocation lists (DER) of the root and the issuing authorities |
| `trusted-lists/` | a list of the lists and a national list, in which the issuing authorities are granted services |
{faults}
Every certificate also stands as `.der`, its private key as `.key` (PKCS#8 PEM, mode 0600). A provider's or server's
certificate has four more forms: `-chain.pem` (with its issuing authority, what a TLS side sends), `.p12` (PKCS#12, password
`{password}`), `.csr` (the request for it) and `.b64` (one line, the value of the TPP-Signature-Certificate header).

## curl

    curl --cert qwac-chain.pem --key qwac.key --cacert root.pem https://localhost:8443/

## httpx

    import httpx, ssl
    context = ssl.create_default_context(cafile="root.pem")
    context.load_cert_chain("qwac-chain.pem", "qwac.key")
    client = httpx.Client(verify=context)

## nginx

    ssl_certificate         server-chain.pem;
    ssl_certificate_key     server.key;
    ssl_client_certificate  root.pem;
    ssl_verify_client       on;
    ssl_verify_depth        2;
    proxy_set_header        X-Client-Cert $ssl_client_escaped_cert;

## tppkit

    tppkit cert check qwac-chain.pem --as qwac --trust .
    tppkit cert check qwac-chain.pem --as qwac --trust . --crl issuing-ca-qwac.crl --crl root.crl
    tppkit trust status qwac.pem --trusted-lists trusted-lists
    tppkit pki serve .          # OCSP, revocation lists, time stamps and trusted lists over HTTP
    tppkit pki issue qwac .     # one more certificate
    tppkit pki revoke qwac.pem  # and new revocation lists
"""


_FAULTS = (
    "| `faults/` | what must be refused, one fault each; the manifest says why, and with which options and codes |\n"
)


def make_guide(pki: Pki, *, password: str, with_faults: bool = False) -> str:
    """The guide to a folder.

    Args:
        pki: what stands in it.
        password: of the PKCS#12 files.
        with_faults: the catalogue of faults is there too.
    """
    return _GUIDE.format(
        name=pki.provider.name,
        organization=pki.provider.organization_identifier.text,
        roles=", ".join(pki.provider.roles),
        other=pki.other_provider.organization_identifier.text,
        password=password,
        faults=_FAULTS if with_faults else "",
    )
