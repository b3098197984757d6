"""Build a release into dist/ and check what a user will install; `make release` runs it.

    python tools/release.py [--url NAME=ADDRESS ...] [--files ADDRESS] [--quick]

It builds what is committed, twice, and compares byte for byte; needs git, and a registry to install from. The publisher gives the
addresses of the project: `--url` for each line of the metadata, `--files` for the folder that the relative links of the README start at.
`--quick` installs and runs only what `constraints.txt` pins: the build, and what describes it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.metadata import Metadata

import licences

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
PROMISED = "tests/stable-codes.txt"
OWN_EXTRAS = ("all", "dev", "docs")  # `all` is installed apart, the others are for contributors
NO_WHEEL = "pyspark"  # is published as sources only, 450 MB: its wheel is built once
# Quick tests that run with the lowest libraries too, and what they need besides the package.
TEST_TOOLS = (
    "aiosqlite", "cbor2", "cryptography-vectors", "http-message-signatures", "hypothesis", "joserfc", "pytest-xdist", "resvg-py",
)  # fmt: skip
WITH_OTHER_TOOLS = (
    "tests/httpsig/signers/test_kms.py", "tests/httpsig/test_wycheproof.py", "tests/sandbox/test_containers.py",
    "tests/sandbox/test_pki_server.py",
)  # fmt: skip
TESTED = ("callbacks", "evidence", "httpsig", "inbox", "protocol", "qr", "sandbox", "seals")
BOUND_TESTS = (*(f"tests/{name}" for name in TESTED), *(f"--ignore={path}" for path in WITH_OTHER_TOOLS))


class Failed(Exception):
    """A release that must not go out, and why."""


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Run a command; its output, which is part of the message where it fails."""
    env = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", **variables}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd or ROOT, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))[:300]}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def module(name: str, *arguments: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Run a module of this environment."""
    return run(sys.executable, "-m", name, *arguments, cwd=cwd, **variables)


def main(arguments: list[str]) -> int:
    """Every step in its order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", action="append", default=[], metavar="NAME=ADDRESS")
    parser.add_argument("--files", metavar="ADDRESS")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    try:
        require_committed()
        require_promises()
        with TemporaryDirectory() as folder:
            release(
                Path(folder),
                urls=dict(url.split("=", 1) for url in options.url),
                addresses=options.files,
                quick=options.quick,
            )
    except Failed as e:
        print(f"no release: {e}", file=sys.stderr)
        return 1
    return 0


def release(folder: Path, *, urls: Mapping[str, str], addresses: str | None, quick: bool) -> None:
    """Build, check and describe."""
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    wheel, sdist = build_twice(folder, urls=urls, files=addresses, epoch=epoch)
    print(f"built twice, the same: {wheel.name}, {sdist.name}")
    metadata = check_metadata(wheel)
    pythons = {version: path for version in PYTHONS if (path := interpreter(version))}
    print(
        f"interpreters: {', '.join(pythons)}; not here: {', '.join(sorted(set(PYTHONS) - set(pythons))) or 'none'}",
        flush=True,
    )
    lowest = min(pythons.items())
    extras = sorted(set(metadata.provides_extra or ()) - set(OWN_EXTRAS))
    build_spark(folder)
    check_installs(folder, wheel, () if quick else extras, dict([lowest]) if quick else pythons)
    described = describe(folder, wheel, str(metadata.version), epoch, lowest[0])
    files = [(path.name, path.read_bytes()) for path in (wheel, sdist, *described)]
    if not quick:
        check_types(folder, pythons)
        check_bounds(folder, wheel, [extra for extra in extras if extra != "spark"], lowest)
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files)]
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for name, content in (*files, ("SHA256SUMS", "".join(sums).encode())):
        (DIST / name).write_bytes(content)
    print(f"{DIST}: {', '.join(sorted(path.name for path in DIST.iterdir()))}")


def build_twice(folder: Path, *, urls: Mapping[str, str], files: str | None, epoch: str) -> tuple[Path, Path]:
    """Build from the commit, and again from the archive of sources, in another folder and with another umask."""
    first = folder / "commit"
    first.mkdir()
    run("git", "archive", "HEAD", "-o", folder / "commit.tar")
    unpack(folder / "commit.tar", first)
    address(first, urls, files)
    built = build(first, folder / "first", epoch=epoch)
    unpack(built[1], folder / "again")
    (second,) = (folder / "again").iterdir()
    before = os.umask(0o077)
    try:
        again = build(second, folder / "second", epoch=epoch)
    finally:
        os.umask(before)
    for one, other in zip(built, again, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise Failed(f"two builds of {one.name} differ")
    return built


def unpack(path: Path, folder: Path) -> None:
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")


def address(tree: Path, urls: Mapping[str, str], files: str | None) -> None:
    """Write the publisher's addresses into the metadata, and into the README's links, which an index cannot follow otherwise."""
    if urls:
        lines = "".join(f"{json.dumps(name)} = {json.dumps(url)}\n" for name, url in urls.items())
        with (tree / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(f"\n[project.urls]\n{lines}")
    if files:
        readme = tree / "README.md"
        text = re.sub(r"(!\[[^]]*\]\()(?![a-z]+:)([^)]*)\)", r"\1\2?raw=true)", readme.read_text("utf-8"))
        readme.write_text(re.sub(r"\]\((?![a-z]+:|#)", f"]({files.rstrip('/')}/", text), "utf-8")


def build(tree: Path, target: Path, *, epoch: str) -> tuple[Path, Path]:
    """The wheel and the archive of sources of a tree."""
    module("hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", target, cwd=tree, SOURCE_DATE_EPOCH=epoch)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


def check_metadata(wheel: Path) -> Metadata:
    """Validate the metadata, and find the version in the changelog."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(archive.read(name), validate=True)
    absent = [
        key for key in ("summary", "description", "license_expression", "requires_python") if not getattr(metadata, key)
    ]
    if absent or metadata.description_content_type != "text/markdown":
        raise Failed(f"the metadata has no {', '.join(absent) or 'Markdown'}")
    require_dated(str(metadata.version))
    return metadata


def require_dated(version: str) -> None:
    """The changelog begins with this version and its date."""
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if not heading or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading[1]):
        raise Failed(f"the changelog begins with {heading and heading[1]!r}, not with {version} and its date")


def require_committed() -> None:
    """The checks read the folder and the build reads the commit, so both must be the same."""
    if changed := run("git", "status", "--porcelain").rstrip():
        raise Failed(f"uncommitted changes:\n{changed}")


def require_promises() -> None:
    """The list of promised codes has every stable code, and keeps what the releases before promised."""
    promised = (ROOT / PROMISED).read_text("utf-8").split()
    from tppkit.codes import CODES

    new = sorted({code for code, row in CODES.items() if row.stable} - set(promised))
    if new:
        raise Failed(f"a release promises its stable codes: add to {PROMISED}, or mark as unstable: {' '.join(new)}")
    for tag in run("git", "tag", "--list", "v*").split():
        if gone := set(run("git", "show", f"{tag}:{PROMISED}").split()) - set(promised):
            raise Failed(f"{tag} promised codes that are gone: {' '.join(sorted(gone))}")


def interpreter(version: str) -> str | None:
    """The first interpreter of this version that runs: the command, or one of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))):
        if (
            candidate
            and not subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False).returncode
        ):
            return str(candidate)
    return None


def environment(python: str, folder: Path, *install: str | Path) -> Path:
    """The interpreter of a new environment with these packages."""
    module("uv", "venv", "--quiet", "--python", python, folder)
    path = folder / "bin" / "python"
    module(
        "uv",
        "pip",
        "install",
        "--quiet",
        "--find-links",
        folder.parent / "wheels",
        "--python",
        path,
        *install,
        cwd=folder,
    )
    return path


def build_spark(folder: Path) -> None:
    """The wheel of Spark, by the setuptools that the constraints pin."""
    pinned = ROOT / "constraints.txt"
    command = ("wheel", "--no-deps", "--constraint", pinned, "--wheel-dir", folder / "wheels", NO_WHEEL)
    module("pip", *command, PIP_CONSTRAINT=str(pinned), PIP_BUILD_CONSTRAINT=str(pinned))  # the second since pip 25.3


def of_wheel(wheel: Path, *extras: str) -> str:
    return f"tppkit[{','.join(extras)}] @ {wheel.as_uri()}"


def check_installs(folder: Path, wheel: Path, extras: Iterable[str], pythons: Mapping[str, str]) -> None:
    """The wheel alone, with each extra alone and with all of them, in an environment of each interpreter."""

    def check(version: str, *extra: str) -> None:
        target = folder / "-".join((version, *extra))
        python = environment(
            pythons[version], target, "--constraint", ROOT / "constraints.txt", of_wheel(wheel, *extra)
        )
        run(python, "-I", ROOT / "tools" / "extras.py", cwd=target)
        run(target / "bin" / "tppkit", "--version", cwd=target)
        print(target.name, end=" ", flush=True)

    in_parallel(
        partial(check, version, *extra) for version in pythons for extra in ((), *((one,) for one in extras), ("all",))
    )
    print("are installed, and each extra works or is named")


def in_parallel(tasks: Iterable[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(2) as threads:
        try:
            for done in [threads.submit(task) for task in tasks]:
                done.result()
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def check_types(folder: Path, pythons: Iterable[str]) -> None:
    """The programs of tests/typing, as a user's type checkers see them: with the installed wheel, not the sources."""
    user = folder / "user"
    shutil.copytree(ROOT / "tests" / "typing", user)
    for version in pythons:
        python = folder / f"{version}-all" / "bin" / "python"
        module(
            "mypy",
            "--strict",
            "--cache-dir",
            folder / "cache",
            "--python-executable",
            python,
            *user.glob("*.py"),
            cwd=user,
        )
        module("pyright", "--pythonpath", python, cwd=user)
    print("mypy --strict and pyright accept the programs of tests/typing with the wheel", flush=True)


def check_bounds(folder: Path, wheel: Path, extras: Sequence[str], python: tuple[str, str]) -> None:
    """Each extra and quick tests with the lowest version of each library that pyproject.toml allows, and with the newest there is."""
    version, command = python
    tree = folder / "commit"
    settings = tree / "pyproject.toml"
    named = [word for extra in extras for word in ("--extra", extra)]
    resolving = (
        "--resolution",
        "lowest-direct",
        "--python-version",
        version,
        *named,
        settings,
        "-o",
        folder / "lowest.txt",
    )
    module("uv", "pip", "compile", "--quiet", *resolving)
    text = settings.read_text("utf-8")  # without an option of pytest 9, which the lowest version rejects
    settings.write_text(text.replace("faulthandler_exit_on_timeout = true\n", ""), "utf-8")
    chosen: tuple[tuple[str, tuple[str | Path, ...]], ...] = (
        ("lowest", ("--constraint", folder / "lowest.txt")),
        ("newest", ("--upgrade",)),
    )
    for name, bounds in chosen:
        path = environment(command, folder / name, *bounds, of_wheel(wheel, *extras), *TEST_TOOLS)
        run(path, "-I", ROOT / "tools" / "extras.py", cwd=folder / name)
        run(path, "-m", "pytest", "-q", "-n", "0", "-m", "not slow and not shared", *BOUND_TESTS, cwd=tree)
        print(f"each extra works, and quick tests pass, with the {name} libraries", flush=True)


def describe(folder: Path, wheel: Path, version: str, epoch: str, python: str) -> list[Path]:
    """A bill of materials of the required libraries and one of all extras, and a table of their licences."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    described = {
        "version": version,
        "purl": f"pkg:pypi/tppkit@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
    project = ("--pyproject", folder / "commit" / "pyproject.toml", "--mc-type", "library")
    targets = [folder / f"tppkit-{version}{name}.cdx.json" for name in ("", "-all")]
    bill: dict[str, Any] = {}
    for name, target in zip(("", "-all"), targets, strict=True):
        path = folder / f"{python}{name}" / "bin" / "python"
        module(
            "cyclonedx_py",
            "environment",
            "--output-reproducible",
            *project,
            path,
            "-o",
            target,
            SOURCE_DATE_EPOCH=epoch,
        )
        bill = json.loads(target.read_text("utf-8"))
        bill["metadata"]["component"] |= described
        target.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", "utf-8")
    rows = list(licences.rows(bill))
    if unknown := [row.name for row in rows if not row.reason]:
        raise Failed(f"licences that are neither permissive nor named with a reason: {', '.join(unknown)}")
    table = folder / f"tppkit-{version}-licences.md"
    table.write_text(licences.table(rows), "utf-8")
    print(f"bills of materials, and the licences of {len(rows)} libraries")
    return [*targets, table]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
