"""A week of operation in some minutes: what happens to a proxy, and what it says of it wherever operators look.

    scripts/week                    a morning: the events that need one start, over the real places
    scripts/week --whole            the whole week, with a disk that is full and a version that is upgraded
    scripts/week --whole --page docs/week.md [--pictures docs/images]

Each event names what the log, `/metrics`, `/ready`, `dpproxy admin status`, the console, the audit log and analysts have to be
told of it (`week_events`); the run ends with exit code 1 at the first that is not told. The clock is moved, so that windows end
and answers age as in a week. Pictures need Chromium, node and DPPROXY_NODE_MODULES with playwright-core.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from week_events import EVENTS, Event, Told
from week_world import MONDAY, World, machine_room

NAMES: Final = {
    "client": "analysts",
    "log": "log",
    "metrics": "/metrics",
    "ready": "/ready",
    "status": "dpproxy admin status",
    "console": "console",
    "audit": "audit log",
}
WIDEST: Final = 230
"""Characters of a line that the page quotes."""
MORNING: Final = (
    "The upgrade",
    "A morning's load",
    "A budget ends",
    "A role is paused",
    "It is resumed",
    "The clock is wrong",
    "It is stopped",
)
PICTURE: Final = """
import { createRequire } from "node:module";
const [address, token, path, file, modules] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 900, height: 520 } });
await page.goto(`${address}/login`);
await page.fill("#token", token);
await page.click("main button");
await page.goto(address + path);
await page.screenshot({ path: file });
await browser.close();
"""


@dataclass(frozen=True)
class Account:
    """Is what was told of an event: of each place the lines; `picture`: the file of a picture, or empty."""

    event: Event
    seen: tuple[str, ...]
    told: tuple[tuple[Told, str], ...]
    picture: str = ""


def happened(world: World, event: Event, pictures: Path | None = None) -> Account:
    """Let it happen, and wait until every place has told of it. Raises AssertionError for one that does not."""
    world.until(event.day, event.hour)
    world.mark()
    seen = tuple(event.act(world))
    found = tuple((told, _said(world, told, seen).replace(str(world.folder), "/srv/week")) for told in event.told)
    picture = ""
    if pictures is not None and event.picture and world.console is not None:
        picture = f"week-{re.sub(r'[^a-z]+', '-', event.title.lower())}.png"
        _take(world, event.picture, pictures / picture)
    return Account(event, seen, found, picture)


def _said(world: World, told: Told, seen: Sequence[str]) -> str:
    if told.place != "client":
        return world.awaited(told.place, told.pattern, told.page, told.gone)
    found = next((line for line in seen if re.search(told.pattern, line)), None)
    assert found is not None, f"analysts do not see {told.pattern}:\n" + "\n".join(seen)
    return found


def _take(world: World, path: str, file: Path) -> None:
    """A picture of a page, in a session of its own."""
    assert world.console is not None
    script = world.folder / "picture.mjs"
    script.write_text(PICTURE)
    modules = os.environ["DPPROXY_NODE_MODULES"]
    command = ["node", str(script), world.console.address, world.console.token, path, str(file), modules]
    subprocess.run(command, check=True, timeout=120)


# the page

HEAD: Final = """# A week of operation, and what was said of it

`scripts/week --whole` lets a week pass in some minutes: a proxy over a DuckDB file (`town`, whose state folder an earlier
version left) and a PostgreSQL (`clinic`), four analysts of four roles, and a clock that is moved. At each event it looks at
every place where operators look, and fails where one does not tell what it should. This page is what it wrote: the line of each
place that tells of the event, without times and numbers of sessions. Log lines are written here as `level: event: fields`.

What the first runs of it found silent or misleading is mended: `/ready`, metrics and console now say that nothing is charged
for want of disk or of a clock that can be believed; a part that does not work says why; a run that was killed is told at the
next start; analysts are told what is the matter instead of an incident's number; and an operator gets in, and is told why, when
the disk is full.
"""


def page(accounts: Sequence[Account]) -> str:
    """The week as Markdown."""
    return "\n".join([HEAD, *(line for account in accounts for line in _section(account))]).rstrip() + "\n"


def _section(account: Account) -> Iterator[str]:
    event = account.event
    at = MONDAY.replace(hour=0) + dt.timedelta(days=event.day, hours=event.hour)
    yield from (
        f"## {at:%A %H:%M}: {event.title[0].lower()}{event.title[1:]}",
        "",
        event.text,
        "",
        "| where | says |",
        "|---|---|",
    )
    for told, line in account.told:
        name = NAMES[told.place] + (f", {told.page}" if told.page != "/" else "")
        yield f"| {name} | {_cell(line) if line else 'nothing more of it'} |"
    yield ""
    if account.picture:
        yield from (f"![The console: {event.title.lower()}](images/{account.picture})", "")


def _cell(line: str) -> str:
    short = line if len(line) <= WIDEST else line[:WIDEST].rsplit(" ", 1)[0] + " ..."
    return "`" + short.replace("|", "¦").replace("`", "'") + "`"


def week(folder: Path, names: Sequence[str] = (), pictures: Path | None = None) -> list[Account]:
    """Let the events happen, or those of some names. Raises AssertionError."""
    accounts = []
    with machine_room(folder) as world:
        for event in EVENTS:
            if names and event.title not in names:
                continue
            if event.disk and not world.small:
                print(f"NOT TRIED, no right to mount a disk: {event.title}", file=sys.stderr)
                continue
            accounts.append(happened(world, event, pictures))
            print(f"{event.title}: told in {len(event.told)} places", file=sys.stderr, flush=True)
    return accounts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="all events")
    parser.add_argument("--page", type=Path, help="write what was said as Markdown")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the console")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpproxy-week-", ignore_cleanup_errors=True) as folder:
        accounts = week(Path(folder), () if options.whole else MORNING, options.pictures)
    if options.page:
        options.page.write_text(page(accounts))


if __name__ == "__main__":
    main()
