"""The Containerfile and the compose file of the examples, in network namespaces: by service names, with the token, with resets."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
import yaml

from containers import Image, Network, Services, do, need_namespaces
from programs import TPPKIT, needed
from servers import postgresql
from tppkit import __version__
from tppkit.web import make_webhook_path

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "containers"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
CLIENT = Path(__file__).with_name("container_client.py")


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """A namespace for each service, and one for the tests of an application."""
    made = Network([*COMPOSE["services"], "tests"])
    with made.up():
        yield made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make wheels` fills."""
    folder = tmp_path_factory.mktemp("image") / "wheels"
    do("make", "-C", ROOT, "wheels", f"WHEELS={folder}")
    return folder


@pytest.fixture(scope="module")
def base(network: Network, wheels: Path) -> Iterator[Image]:
    """The root that the Containerfile starts from."""
    needed("mmdebstrap")
    made = Image(wheels.parent / "root")
    made.build(FOLDER / "Containerfile", rest=False)
    yield made
    shutil.rmtree(made.root)


@pytest.fixture(scope="module")
def image(base: Image, network: Network, wheels: Path) -> Image:
    """The image of the Containerfile."""
    base.build(FOLDER / "Containerfile", start=False, wheels=wheels)
    (base.root / "etc" / "hosts").write_text(network.hosts)
    return base


def test_the_folder_has_wheels_only_and_the_one_of_this_version(wheels):
    names = {path.name for path in wheels.iterdir()}
    assert f"tppkit-{__version__}-py3-none-any.whl" in names
    assert {name.rpartition(".")[2] for name in names} == {"whl"}


def test_the_root_is_debian_12_without_python(base):
    assert (base.root / "etc" / "debian_version").read_text().startswith("12.")
    assert not (base.root / "usr" / "bin" / "python3").exists()


def test_the_image_runs_the_wheel_of_this_version_without_rights(image):
    done = subprocess.run(image.command("tppkit", "--version"), capture_output=True, text=True, timeout=60, check=True)
    assert __version__ in done.stdout
    done = subprocess.run(
        image.command("sh", "-c", "id -u; touch /etc/x /opt/tppkit/x"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode != 0, done.stderr.count("Permission denied")) == ("10001\n", True, 2)


def test_the_compose_file_repeats_the_health_check_of_the_image(image):
    assert COMPOSE["services"]["sandbox"]["healthcheck"] == image.said["HEALTHCHECK"]


def test_it_starts_nothing_without_the_token(image):
    command = image.command(*image.said["ENTRYPOINT"], *image.said["CMD"])
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "TPPKIT_CONTROL_TOKEN" in done.stderr) == (2, True)
    assert not [*(image.root / "var" / "lib" / "tppkit").iterdir()]


def test_a_suite_in_a_container_drives_the_sandbox_by_name_with_the_token_and_resets_it(image, network, tmp_path):
    token = os.urandom(16).hex()
    variables = {"TPPKIT_CONTROL_TOKEN": token, "WEBHOOK_PATH": make_webhook_path()}
    services, bank = Services(COMPOSE, image, network, variables), image.root / "var" / "lib" / "tppkit"
    logs = {name: tmp_path / f"{name}.log" for name in ("sandbox", "shop")}
    for _ in range(2):
        do(*services.command("pki"))
    with ExitStack() as opened:
        inside = network.command("database")
        url = opened.enter_context(postgresql(fsync=False, inside=inside, network="10.213.0.0/24"))
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("CREATE ROLE sandbox LOGIN")
            database.execute("CREATE DATABASE sandbox OWNER sandbox")
        sandbox = opened.enter_context(services.running("sandbox", logs["sandbox"]))
        services.wait_until_healthy("sandbox", sandbox, logs["sandbox"])
        shop = opened.enter_context(services.running("shop", logs["shop"]))
        services.wait_until_healthy("shop", shop, logs["shop"])
        with closing(sqlite3.connect(image.root / "tmp" / "shop.sqlite", isolation_level=None)) as locked:
            locked.execute("BEGIN EXCLUSIVE")
            deadline = time.monotonic() + 60
            while "no order was handled" not in logs["shop"].read_text():
                assert time.monotonic() < deadline
                time.sleep(0.1)
        shutil.copy(CLIENT, image.root / "opt" / "shop")
        inside = image.command("python", f"/opt/shop/{CLIENT.name}", env={"TPPKIT_CONTROL_TOKEN": token})
        command = network.command("tests", *inside)
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        said = "".join(path.read_text() for path in logs.values())
        assert done.returncode == 0, done.stdout + done.stderr + said
    assert json.loads(done.stdout.splitlines()[-1]) == {"after a reset": "RESOURCE_UNKNOWN"}
    assert token not in said + (bank / "ready.json").read_text()
    assert {path.stat().st_uid for path in bank.rglob("*")} == {10001}


def test_the_guide_without_an_engine_works_as_it_is_written(tmp_path):
    need_namespaces()
    guide = (ROOT / "docs/how-to" / "in-ci-and-containers.md").read_text().partition("## Without a container engine")[2]
    script = guide.partition("```text\n")[2].partition("```")[0]
    for name in ("bank", "tests"):  # as the guide names them, but for this test only
        script = re.sub(rf"\b{name}\b", f"{name}-{os.getpid()}", script)
    environment = {**os.environ, "PATH": f"{TPPKIT.parent}:{os.environ['PATH']}"}
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    try:
        done = run(["bash", "-e", "-c", script], check=False)
    finally:
        run(["sh", "-c", f"ip netns pids bank-{os.getpid()} | xargs -r kill"], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"20\d\d-.*Z", done.stdout.splitlines()[-1]), done.stdout
