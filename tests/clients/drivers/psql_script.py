"""The psql on the path, older than the one that comes with the facade: scripts through standard input."""

import subprocess
import threading

from checks import ANSWER, run, version

PLAIN = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
version(subprocess.run(["psql", "-V"], capture_output=True, text=True, check=True).stdout.split()[2])


def psql(script, *options, ok=True):
    done = subprocess.run([*PLAIN, *options], input=script, capture_output=True, text=True, timeout=300)
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout if ok else done.stderr


def answer():
    assert [line.split("|")[:2] for line in psql(ANSWER).splitlines()] == [[r, "250"] for r in ("east", "north", "south", "west")]


def paging():
    assert len(psql(ANSWER, "-v", "FETCH_COUNT=1").splitlines()) == 4


def transactions():
    script = f"BEGIN; DECLARE c CURSOR FOR {ANSWER}; FETCH 3 FROM c; FETCH 3 FROM c; COMMIT;"
    assert len(psql(script).splitlines()) == 4


def errors():
    text = psql("SELECT * FROM people;", ok=False)
    assert "ERROR:" in text and "LINE 1:" in text and "^" in text


def catalog():
    for command in (
        "\\d",
        "\\dt",
        "\\dv",
        "\\dn",
        "\\du",
        "\\df",
        "\\dp",
        "\\d people",
        "\\d+ visits",
        "\\di",
        "\\conninfo",
    ):
        psql(command)
    assert "people" in psql("\\dt") and "email" not in psql("\\d people")


def copy():
    assert len(psql(f"\\copy ({ANSWER}) TO STDOUT CSV").splitlines()) == 4


def cancel():
    running = subprocess.Popen([*PLAIN, "-c", "SELECT pg_sleep(20)"], stderr=subprocess.PIPE, text=True)
    threading.Timer(0.5, running.send_signal, [2]).start()
    assert "canceling statement due to user request" in running.communicate(timeout=300)[1]


run(answer=answer, paging=paging, transactions=transactions, errors=errors, catalog=catalog, copy=copy, cancel=cancel)
