"""What needs an extra: what it says without it, and whether it works with it.

    python extras.py

runs in the environment of a user, without any tool of this project.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires

# What is imported or called, and the extras that it needs. The first of them that is absent is named.
NEEDS = {
    "import tppkit.callbacks.login_codes": "sqlalchemy",
    "import tppkit.evidence.outbox": "sqlalchemy",
    "import tppkit.evidence.parquet": "audit",
    "import tppkit.evidence.spark": "spark",
    "import tppkit.evidence.stamps": "audit",
    "import tppkit.inbox.store": "sqlalchemy",
    "import tppkit.sandbox": "sandbox",
    "import tppkit.testing": "testing",
    "import tppkit.web.fastapi": "fastapi",
    "import tppkit.web.flask": "flask",
    "import tppkit.web.opentelemetry": "opentelemetry",
    "import tppkit.web.prometheus": "prometheus",
    "import tppkit.web.replay_stores.table": "sqlalchemy",
    "from tppkit.callbacks import AsyncInbox; AsyncInbox(None, None)": "sqlalchemy",
    "from tppkit.httpsig import KmsSigner; KmsSigner('alias/seal')": "kms",
    "from tppkit.httpsig import Pkcs11Signer; Pkcs11Signer('/m.so', token='t', pin='1', label='l')": "hsm",
    "from tppkit.web.replay_stores.table import TableReplayStore as T; T('postgresql+psycopg://127.0.0.1:1/n')": "sqlalchemy postgres",
    "from tppkit.qr import Login, make_picture; make_picture(Login('https://shop.example/'))": "qr",
    "from tppkit.qr import read_texts; read_texts(b'')": "scan",
    "from tppkit.trust.trusted_list.xml_document import parse_xml; parse_xml(b'<a/>', what='the list')": "lists",
}


def result(line: str) -> str:
    """Run a line: the code and message of our error, or an empty text if it needs nothing that is absent."""
    from tppkit.errors import ConfigurationError, FormatError, TransportError

    try:
        exec(line, {})  # noqa: S102  # a line of the table above
    except ConfigurationError as e:
        return f"{e.code} {e.message}" if e.code == "extra.missing" else ""
    except (AttributeError, FormatError, TransportError, TypeError):
        return ""  # the arguments are wrong: the library is there
    except ImportError as e:
        return f"{type(e).__name__}: {e}"
    return ""


def installed(extra: str) -> bool:
    """Whether every library that the extra asks for is installed."""
    try:
        for line in requires("tppkit") or ():
            requirement, _, marker = line.partition(";")
            if f"extra == '{extra}'" in marker.replace('"', "'"):
                distribution("".join(c if c.isalnum() or c in "-_." else " " for c in requirement).split()[0])
    except PackageNotFoundError:
        return False
    return True


def main() -> int:
    """Print each line that does not do what it should."""
    os.environ |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_EC2_METADATA_DISABLED": "true"}  # no key is asked for
    wrong = 0
    for line, extras in NEEDS.items():
        shown = result(line)
        absent = [extra for extra in extras.split() if not installed(extra)]
        right = f"pip install 'tppkit[{absent[0]}]'" in shown if absent else not shown
        if not right:
            wrong += 1
            print(f"{line}: {shown or 'no error'}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
