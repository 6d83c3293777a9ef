"""The planner's helpers, for tests that plan and run without a proxy."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "plan"))
