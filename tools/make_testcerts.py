"""Write the committed test certificates, or check that they can be made again byte for byte.

    python tools/make_testcerts.py [--check]

Seed and time are fixed and the signatures are deterministic, so the files change only with the code. TEST KEYS ONLY: anyone can
make them with this file.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from tppkit.testpki import make_pki, make_provider, write_pki
from tppkit.testpki.files import README as README_NAME
from tppkit.testpki.manifest import MANIFEST, manifest_json

FOLDER = Path(__file__).parents[1] / "testcerts"
AT = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 7300
LEFT_OUT = ".p12"
README = """# Test certificates

TEST KEYS ONLY. Everybody can make these private keys again from a published seed; nothing real may ever trust them.

`tools/make_testcerts.py` writes this folder and `tools/make_testcerts.py --check` (part of `make lint`) makes it again byte
for byte: P-256 keys from seed 1, valid from 2026-01-01 for twenty years, deterministic ECDSA. `manifest.json` names every
file. `other-*` belong to another provider, `reader-qwac` to a provider without the payment-initiation role. The PKCS#12 files that
`tppkit pki create` writes too are left out here. The trusted lists are those of the first day.
"""


def make(folder: Path) -> None:
    """Write everything into a new folder."""
    pki = make_pki(at=AT, days=DAYS, seed=1)
    reader = make_provider(roles=["PSP_AI"])
    manifest = write_pki(pki, folder, further=(pki.issue_qwac(reader, label="reader-qwac"),))
    for entry in manifest["files"]:  # the other forms say the same
        entry["further_paths"] = [name for name in entry["further_paths"] if not name.endswith(LEFT_OUT)]
    for path in folder.iterdir():
        if path.name.endswith(LEFT_OUT):
            path.unlink()
    (folder / MANIFEST).write_bytes(manifest_json(manifest))
    (folder / README_NAME).write_text(README, "utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def main() -> int:
    """Write, or compare."""
    with tempfile.TemporaryDirectory() as temporary:
        fresh = Path(temporary) / "testcerts"
        make(fresh)
        if "--check" in sys.argv[1:]:
            made, kept = contents(fresh), contents(FOLDER)
            differing = sorted(name for name in made.keys() | kept.keys() if made.get(name) != kept.get(name))
            for name in differing:
                print(f"testcerts/{name} is not what tools/make_testcerts.py makes")
            return 1 if differing else 0
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.move(fresh, FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
