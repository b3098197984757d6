"""Every code block of docs/identity.md runs, in order, in one fresh folder, with a real token and a KMS on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from programs import needed

GUIDE = Path(__file__).parents[1] / "docs" / "identity.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def surroundings(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a machine with SoftHSM2 and a key in KMS."""
    needed("softhsm2-util", "softhsm2")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tmp_path / 'tokens'}\n")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    aws = {
        "AWS_ENDPOINT_URL_KMS": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    kms = boto3.client(
        "kms", endpoint_url=aws["AWS_ENDPOINT_URL_KMS"], region_name="eu-central-1",
        aws_access_key_id="test", aws_secret_access_key="test",
    )  # fmt: skip
    key = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/seal-2026", TargetKeyId=key)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        yield {**os.environ, **aws, "PATH": path, "SOFTHSM2_CONF": str(tmp_path / "softhsm2.conf")}
    finally:
        server.stop()


def test_every_code_block_of_the_guide_runs_in_order(tmp_path, surroundings):
    blocks = BLOCK.findall(GUIDE.read_text("utf-8"))
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    for text in (text for kind, text in blocks if kind == "sh"):
        run(["sh", "-ec", text], tmp_path, surroundings)
    printed = run(
        [sys.executable, "-c", "\n".join(text for kind, text in blocks if kind == "python")], tmp_path, surroundings
    )
    assert printed.splitlines() == ["ecdsa-sha256", "ecdsa-sha256", "201 RCVD"]


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
