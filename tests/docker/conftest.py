"""Tests here start servers with the starter of scratch servers, which the scripts share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
