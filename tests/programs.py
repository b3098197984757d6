"""Where the installed programs are."""

from __future__ import annotations

import sys
from pathlib import Path

TPPKIT = Path(sys.executable).with_name("tppkit")
