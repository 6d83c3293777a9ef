"""docs/mutants.md: of each way in which plans were corrupted, how many mutants the kernel refused, and what became of the others.

    DPPROXY_MUTANTS=FILE scripts/test -m long tests/kernel/test_mutants.py          a line of the file for each part
    scripts/mutants FILE > docs/mutants.md

Knows: what that test writes. Must not know: what mutants are. Of a part that is there twice the last counts. No page is written
where a mutant leaked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENDS = ("refused", "broken", "harmless")

HEAD = """# Mutants of plans

A bug of the planner makes a plan that is wrong, or one that claims too little. So real plans are corrupted, in {operators} ways:
{judged:,} mutants of plans of generated statements, under policies with bounds of each kind, and of fixtures that are read from
stored tables. The [kernel](proof.md) is asked of each. What it accepts runs on a database, and on the same without each of its
people in turn, with tables that are stored of each.

*Refused*: by the kernel. *Broken*: the kernel accepts it, and no engine runs it, neither on hostile nor on tame data, nor
without people: one that fails for some data alone counts as a leak. *Harmless*: the kernel accepts it, and nobody's rows move
an answer by more than is claimed: where a filter of the statement is dropped, say.
**Accepted, and moved by more: 0.** {refused} % are refused. `DPPROXY_MUTANTS=FILE scripts/test -m long
tests/kernel/test_mutants.py` runs them, in {parts} parts, and `scripts/mutants FILE` writes this page.

| what is corrupted | mutants | refused | broken | harmless |
|---|---|---|---|---|"""


def page(parts: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the page. Raises SystemExit for a leak."""
    if leaks := [leak for part in parts.values() for leak in part["leaks"]]:
        sys.exit(f"accepted, and leak: {leaks}")
    found = {end: sum((Counter(part[end]) for part in parts.values()), Counter[str]()) for end in ENDS}
    every = sum(found.values(), Counter[str]())
    share = 100 * found["refused"].total() / every.total()
    head = HEAD.format(operators=len(every), judged=every.total(), refused=f"{share:.0f}", parts=len(parts))
    rows = [f"| {name} | {every[name]:,} | {' | '.join(f'{found[end][name]:,}' for end in ENDS)} |" for name in sorted(every)]
    return "\n".join((head, *rows, ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what the test wrote")
    lines = [json.loads(line) for line in parser.parse_args().file.read_text().splitlines()]
    print(page({line["part"]: line for line in lines}), end="")


if __name__ == "__main__":
    main()
