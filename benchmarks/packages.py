"""What it costs to install and to import the package, alone and with each extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness import LEAST_ROUNDS, Line, counted, judged

ROOT = Path(__file__).parents[1]

# A module, libraries that it loads, and the most that importing all may take, in times of importing those.
IMPORTS = (
    ("tppkit.seals", "cryptography.x509, asn1crypto.core", 6),
    ("tppkit.evidence", "cryptography.x509, asn1crypto.core", 8),
    ("tppkit.client", "httpx, pydantic, cryptography.x509", 4),
    ("tppkit.sandbox", "httpx, pydantic, starlette.applications, uvicorn, sqlalchemy, OpenSSL, jinja2", 4),
    ("tppkit.evidence.parquet", "pyarrow.parquet, cryptography.x509", 3),
    ("tppkit.inbox.store", "sqlalchemy", 1.5),
    ("tppkit.web.fastapi", "fastapi, pydantic, cryptography.x509", 2.5),
    ("tppkit.web.flask", "flask, pydantic, cryptography.x509", 4),
    ("tppkit.web.prometheus", "prometheus_client, pydantic, cryptography.x509", 5),
    ("tppkit.web.opentelemetry", "opentelemetry.metrics, pydantic, cryptography.x509", 6),
    ("tppkit.qr", "segno", 2),
)
TIMED = """
from time import perf_counter
begin = perf_counter()
import {reference}
between = perf_counter()
import {module}
print((perf_counter() - begin) / (between - begin))
"""

# Megabytes of an extra and all that it needs, without what the package needs alone.
SIZES = {
    "audit": 220, "fastapi": 3, "flask": 4, "hsm": 12, "kms": 30, "lists": 16, "opentelemetry": 2, "postgres": 16,
    "prometheus": 2, "qr": 1, "sandbox": 30, "scan": 30, "spark": 950, "sqlalchemy": 26, "testing": 10,
}  # fmt: skip


def importing() -> Iterator[Line]:
    """The time to import a module and its libraries, against the libraries alone, in a new process."""
    for module, reference, limit in IMPORTS:
        command = [sys.executable, "-c", TIMED.format(module=module, reference=reference)]
        ratios = [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(LEAST_ROUNDS)]  # noqa: S603  # our own command
        first, *others = reference.split(", ")
        yield judged(f"import {module}", ratios, what=f"of {first}{' ...' if others else ''}", limit=limit)


def installing() -> Iterator[Line]:
    """The size of the wheel, of what it installs, and of each extra here."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603  # our own command
        (wheel,) = Path(folder).iterdir()
        yield counted("wheel", wheel.stat().st_size // 1000, what="kB", at_most=1500)
    alone = needed("tppkit")
    yield counted("installed, without tppkit", megabytes(alone), what="MB of libraries", at_most=35)
    for extra, limit in SIZES.items():
        yield counted(
            f"installed, extra {extra}", megabytes(needed("tppkit", extra) - alone), what="MB more", at_most=limit
        )


def needed(name: str, *extras: str) -> frozenset[str]:
    """The names of the distributions that one requires here, also by those, without itself."""
    found: set[str] = set()
    pending = [Requirement(f"{name}[{','.join(extras)}]" if extras else name)]
    while pending:
        one = pending.pop()
        key = canonicalize_name(one.name)
        if one.extras or key not in found:
            found.add(key)
            for line in distribution(key).requires or ():
                requirement = Requirement(line)
                if any(
                    requirement.marker is None or requirement.marker.evaluate({"extra": extra})
                    for extra in ("", *one.extras)
                ):
                    pending.append(requirement)
    return frozenset(found - {name})


def megabytes(names: frozenset[str]) -> int:
    """The size of the files of distributions, without what Python writes later."""
    return round(sum(_size(name) for name in names) / 1e6)


def _size(name: str) -> int:
    paths = (Path(str(file.locate())) for file in distribution(name).files or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.exists())
