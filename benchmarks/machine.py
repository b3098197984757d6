"""The machine that figures were measured on, and the versions of what they were compared with."""

from __future__ import annotations

import os
import platform
import re
import ssl
from importlib.metadata import version
from pathlib import Path

from cryptography.hazmat.backends.openssl import backend

# Both sides of the lines, and what carries them.
PACKAGES = (
    "asn1crypto", "click", "cryptography", "http-message-signatures", "httptools", "lxml", "pkilint", "psycopg", "SQLAlchemy", "starlette",
    "uvicorn",
)  # fmt: skip


def describe_machine() -> dict[str, str | int]:
    """Processor, cores, memory, system and versions, as Linux gives them."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": model[1] if model else platform.machine(),
        "cores": os.cpu_count() or 1,
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, Linux {platform.release().partition('-')[0]}",
        "Python": platform.python_version(),
        "OpenSSL of cryptography": backend.openssl_version_text().split()[1],
        "OpenSSL of Python, for TLS": ssl.OPENSSL_VERSION.split()[1],
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    }
