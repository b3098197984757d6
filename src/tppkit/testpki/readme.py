"""The README of a test PKI's folder: the purpose of each file, and how to use it."""

from __future__ import annotations

from tppkit._clock import format_time
from tppkit.testpki.faults.valid_pki import judged_at
from tppkit.testpki.pki import Pki

_README = """# Test PKI of {name}

TEST KEYS ONLY: nothing real may ever trust anything in this folder. `manifest.json` names every file for programs.

| file | what it is |
|---|---|
| `root.pem` | the trust anchor; trust only this |
| `issuing-ca-qwac.pem`, `issuing-ca-qseal.pem` | the authorities that issue QWACs and QSealCs |
| `qwac.pem` | the provider's QWAC, for mutual TLS ({organization}, {roles}) |
| `qseal.pem` | the provider's QSealC, for the Signature header |
| `other-qwac.pem`, `other-qseal.pem` | another organisation ({other}), to test what must be rejected |
| `server.pem` | a TLS server on localhost |
| `ocsp-qwac.pem`, `ocsp-qseal.pem` | OCSP responders of the issuing authorities |
| `tsa.pem` | the time-stamping authority (RFC 3161) |
| `lotl-signer.pem`, `list-signer.pem` | signers of the trusted lists |
| `callback-test.key`, `callback-live.key` and `.pub` | P-256 keys that sign the legacy interface's callbacks |
| `*.crl` | revocation lists (DER) of the root and the issuing authorities |
| `trusted-lists/` | a list of the lists and a national list, in which the issuing authorities are granted services |
{faults}
Every certificate has its private key in `.key` (PKCS#8 PEM, mode 0600). The certificate of a provider or a server has two more
forms: `-chain.pem` (with its issuing authority, to be sent in TLS) and `.p12` (PKCS#12, password `{password}`).

The commands below are for a shell in this folder.

## openssl

    openssl x509 -in qwac.pem -noout -text
    openssl verify -CAfile root.pem -untrusted issuing-ca-qwac.pem qwac.pem
    openssl pkcs12 -in qwac.p12 -passin pass:{password} -noenc
    openssl s_server -accept 8443 -cert server.pem -cert_chain issuing-ca-qwac.pem -key server.key -CAfile root.pem -Verify 2 -www

## curl

    curl --cert qwac-chain.pem --key qwac.key --cacert root.pem https://localhost:8443/

## httpx

    import httpx, ssl
    context = ssl.create_default_context(cafile="root.pem")
    context.load_cert_chain("qwac-chain.pem", "qwac.key")
    client = httpx.Client(verify=context)

## nginx

This server verifies no certificate. It passes that of each client to an application on port 8080, whose gate decides: it reads the
certificate with `TrustedProxy("127.0.0.1", form=ProxyForm.NGINX)`. Replace /DIR by the path of this folder (`pwd`).

    server {{
        listen                  127.0.0.1:8443 ssl;
        server_name             localhost;
        ssl_certificate         /DIR/server-chain.pem;
        ssl_certificate_key     /DIR/server.key;
        ssl_verify_client       optional_no_ca;
        error_page              495 = @gate;
        location / {{
            proxy_pass          http://127.0.0.1:8080;
            proxy_set_header    X-SSL-Client-Cert $ssl_client_escaped_cert;
        }}
        location @gate {{
            proxy_pass          http://127.0.0.1:8080;
            proxy_set_header    X-SSL-Client-Cert $ssl_client_escaped_cert;
        }}
    }}

## tppkit

    tppkit cert check qwac-chain.pem --as qwac --trust .
    tppkit cert check qwac-chain.pem --as qwac --trust . --crl issuing-ca-qwac.crl --crl root.crl
    tppkit trust status qwac.pem --trusted-lists trusted-lists
    tppkit pki issue qwac .     # one more certificate
    tppkit pki revoke qwac.pem  # and a new revocation list
    tppkit pki renew .          # new revocation lists and trusted lists
    tppkit pki serve .          # OCSP, revocation lists, time stamps and trusted lists on http://localhost:8448

While it serves:

    openssl ocsp -issuer issuing-ca-qwac.pem -cert qwac.pem -url http://localhost:8448/ocsp -CAfile root.pem -no_nonce
    curl -O http://localhost:8448/issuing-ca-qwac.crl
    openssl ts -query -data qwac.pem -sha256 -cert -out qwac.tsq
    curl -H "Content-Type: application/timestamp-query" --data-binary @qwac.tsq -o qwac.tsr http://localhost:8448/tsa
    openssl ts -verify -data qwac.pem -in qwac.tsr -CAfile root.pem -untrusted issuing-ca-qseal.pem
{trying}"""


_FAULTS = (
    "| `faults/` | one fault each: a check rejects most (`verdict` in the manifest: `fails`), others break a recommendation"
    " (`warns`) or cause a notice (`notes`); the manifest has the reason, the command of the check and the codes that it reports |\n"
)
_TRYING = """
## Faults

    tppkit cert check faults/role-mismatch.pem --as qwac --trust root.pem --at {at}
    tppkit cert check faults/revoked-by-crl.pem --as qwac --trust root.pem --at {at} --crl faults/revoked-by-crl-1.crl

Each is a fault from the day of creation on; without `--at` it is judged now. The commands of all checks:

    python3 -c "import json; print(*(e['command'] for e in json.load(open('manifest.json'))['files'] if 'command' in e), sep='\\n')"
"""


def make_readme(pki: Pki, *, password: str, with_faults: bool = False) -> str:
    """Write the README of a folder.

    Args:
        pki: The PKI in the folder.
        password: The password of the PKCS#12 files.
        with_faults: Whether the folder contains the catalogue of faults.
    """
    return _README.format(
        name=pki.provider.name,
        organization=pki.provider.organization_identifier.text,
        roles=", ".join(pki.provider.roles),
        other=pki.other_provider.organization_identifier.text,
        password=password,
        faults=_FAULTS if with_faults else "",
        trying=_TRYING.format(at=format_time(judged_at(pki))) if with_faults else "",
    )
