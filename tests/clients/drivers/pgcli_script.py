"""pgcli: the program itself, in a terminal of its own: its completions come from the catalog, its answers go to the screen."""

import os
import pty
import select
import subprocess
import sys
import time
from importlib.metadata import version as version_of
from pathlib import Path

from checks import environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(version_of("pgcli"))
PROMPT = "town> "


class Terminal:
    """pgcli in a terminal of 200 columns."""

    def __init__(self):
        self.master, slave = pty.openpty()
        program = str(Path(sys.executable).with_name("pgcli"))
        home = f"/tmp/dpproxy-pgcli-{os.getpid()}"
        settings = {
            **os.environ,
            "TERM": "dumb",
            "PAGER": "cat",
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "COLUMNS": "200",
            "LINES": "60",
        }
        options = ["--less-chatty", "--prompt", PROMPT, "--no-password"]
        self.process = subprocess.Popen([program, *options], stdin=slave, stdout=slave, stderr=slave, env=settings)
        self.until(PROMPT)

    def until(self, expected):
        """What is written up to some text."""
        said, end = "", time.monotonic() + 60
        while expected not in said:
            assert time.monotonic() < end, said
            if select.select([self.master], [], [], 1)[0]:
                said += os.read(self.master, 65536).decode(errors="replace")
        return said

    def ask(self, sql, expected):
        os.write(self.master, (sql + "\r").encode())
        return self.until(expected)


terminal = Terminal()


def answer():
    said = terminal.ask("SELECT region, count(*) > 200 AS many FROM people GROUP BY region ORDER BY 1;", "SELECT 4")
    assert said.count("True") == 4, said


def errors():
    terminal.ask("SELECT * FROM people WHERE id = 5;", "rows of single persons")
    terminal.ask("SELECT email FROM people;", 'column "email" does not exist')


def previews():
    said = terminal.ask("SELECT * FROM people LIMIT 3;", "SELECT 3")
    assert "invented" in said + terminal.ask("SELECT 1 AS one;", "SELECT 1"), said


def transactions():
    terminal.ask("BEGIN;", "BEGIN")
    terminal.ask("SELECT count(*) > 900 AS enough FROM people;", "True")
    terminal.ask("ROLLBACK;", "ROLLBACK")


def catalog():
    terminal.ask("\\dt", "visits")
    said = terminal.ask("\\d visits", "FOREIGN KEY (person) REFERENCES people(id)")
    assert "paid" in said, said


def paging():
    """Rows that do not fit on the screen go to the pager."""
    terminal.ask("SELECT height, count(*) FROM people GROUP BY 1 ORDER BY 1;", "SELECT 50")


try:
    run(answer=answer, errors=errors, previews=previews, transactions=transactions, catalog=catalog, paging=paging)
finally:
    terminal.process.kill()
