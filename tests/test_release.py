"""What `make release` checks before a package goes out, and what it writes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

import licences
import release

OSI = "License :: OSI Approved"


def component(name, *entries):
    return {"name": name, "version": "1", "licenses": list(entries)}


@pytest.mark.parametrize(
    ("licence", "reason"),
    [
        (component("a", {"license": {"id": "MIT"}}), "permissive"),
        (component("a", {"expression": "(Apache-2.0 OR BSD-3-Clause) AND Zlib"}), "permissive"),
        (component("a", {"license": {"id": "MIT"}}, {"license": {"name": "the text of a licence"}}), "permissive"),
        (component("a", {"license": {"id": "MIT"}}, {"license": {"name": "License :: OSI Approved"}}), "permissive"),
        (
            component(
                "a", {"license": {"id": "MIT"}}, {"license": {"name": f"{OSI} :: GNU General Public License (GPL)"}}
            ),
            "",
        ),
        (component("a", {"license": {"name": "License :: OSI Approved :: BSD License"}}), "permissive"),
        (component("a", {"expression": "MIT AND GPL-3.0-only"}), ""),
        (component("a", {"license": {"name": "License :: Other"}}), ""),
        (component("a"), ""),
        (component("Psycopg", {"license": {"id": "LGPL-3.0-only"}}), licences.NAMED["psycopg"]),
    ],
)
def test_a_licence_is_permissive_or_named_with_a_reason(licence, reason):
    (row,) = licences.rows({"components": [licence]})
    assert row.reason == reason
    assert licences.table([row]).splitlines()[2].startswith(f"| {licence['name']} | 1 |")


def test_addresses_of_the_publisher_are_in_the_metadata_and_in_links_of_the_readme(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool]\n")
    (tmp_path / "README.md").write_text("[a](docs/a.md#b) ![c](docs/c.svg) [d](https://d.example/) [e](#f)")
    release.address(tmp_path, {"Source": "https://forge.example/t"}, "https://forge.example/t/blob/v1/")
    files = "https://forge.example/t/blob/v1/docs"
    assert (tmp_path / "pyproject.toml").read_text().endswith('[project.urls]\n"Source" = "https://forge.example/t"\n')
    assert (
        tmp_path / "README.md"
    ).read_text() == f"[a]({files}/a.md#b) ![c]({files}/c.svg?raw=true) [d](https://d.example/) [e](#f)"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    path = tmp_path / release.PROMISED
    path.parent.mkdir()
    path.write_text((Path(__file__).with_name("stable-codes.txt")).read_text())
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@a.example commit -qm one", "tag v0.0.1"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return path


def test_a_release_promises_every_stable_code(repository):
    release.require_promises()


def test_a_release_without_a_stable_code_in_its_promises_fails(repository):
    repository.write_text(repository.read_text().replace("digest.mismatch\n", ""))
    with pytest.raises(release.Failed, match=r"add to tests/stable-codes.txt.*digest.mismatch"):
        release.require_promises()


def test_uncommitted_changes_are_no_release(repository):
    release.require_committed()
    repository.write_text("")
    with pytest.raises(release.Failed, match=f"uncommitted changes:\n M {release.PROMISED}"):
        release.require_committed()


def test_a_failure_starts_nothing_that_waits():
    started = []

    def fail():
        raise release.Failed

    def wait():
        started.append(1)
        time.sleep(0.1)

    with pytest.raises(release.Failed):
        release.in_parallel([fail, *[wait] * 50])
    assert len(started) < 50


def test_a_release_keeps_the_promises_of_the_releases_before(repository):
    repository.write_text(repository.read_text() + "zoo.gone\n")
    for command in ("-c user.name=a -c user.email=a@a.example commit -qam two", "tag v0.0.2"):
        subprocess.run(["git", *command.split()], cwd=repository.parent, check=True)
    repository.write_text(repository.read_text().replace("zoo.gone\n", ""))
    with pytest.raises(release.Failed, match=r"v0\.0\.2 promised codes that are gone: zoo\.gone"):
        release.require_promises()


def test_the_changelog_names_the_version_and_its_date(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.2.0 (2026-11-29)\n\n## 0.1.0 (2026-11-01)\n")
    release.require_dated("0.2.0")
    for version in ("0.1.0", "0.2", "0.2.0 (2026-11-29)"):
        with pytest.raises(release.Failed, match=r"begins with '0.2.0 \(2026-11-29\)'"):
            release.require_dated(version)


@pytest.mark.slow
def test_two_builds_of_the_commit_are_the_same_and_have_valid_metadata(tmp_path):
    wheel, sdist = release.build_twice(
        tmp_path, urls={"Source": "https://forge.example/t"}, files=None, epoch="1780000000"
    )
    metadata = release.check_metadata(wheel)
    assert sdist.name == f"tppkit-{metadata.version}.tar.gz"
    assert metadata.project_urls == {"Source": "https://forge.example/t"}
    assert set(metadata.provides_extra) > set(release.OWN_EXTRAS)
