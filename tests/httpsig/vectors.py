"""Reads the vectors that others published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Vector = Mapping[str, Any]


def load(folder: Path, name: str) -> list[Vector]:
    vectors: list[Vector] = json.loads((folder / "vectors" / name).read_text(encoding="utf-8"))
    assert vectors, f"{name} holds no vector"
    return vectors
