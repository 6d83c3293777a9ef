"""What every driver's script in Python shares: run checks, print one line of JSON for each.

A script stands alone in a process of its own, with the driver's packages on its path and libpq's PG* variables set. It
must not import anything of dpproxy or of the tests.
"""

import json
import os
import sys
import traceback

ANSWER = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region"
REGIONS = [("east", 250, 174), ("north", 250, 175), ("south", 250, 174), ("west", 250, 175)]
REFUSED = "SELECT email FROM people"
ROWS = "SELECT * FROM people"
EAST_AND_SHORT = 50
"""SELECT count(*) FROM people WHERE region = 'east' AND height < 160"""


def environment(*names):
    return [os.environ[f"PG{name}"] for name in names]


def close(one, other, tolerance=1.5):
    return abs(float(one) - float(other)) <= tolerance


def answered(rows):
    """Whether rows are those of ANSWER."""
    rows = [tuple(row) for row in rows]
    assert [r[0] for r in rows] == [r[0] for r in REGIONS], rows
    assert all(close(a, b) for row, known in zip(rows, REGIONS, strict=True) for a, b in zip(row[1:], known[1:], strict=True)), (
        rows
    )


def version(text):
    print(json.dumps({"version": str(text)}), flush=True)


def run(**checks):
    """Each check is a function; what it raises is its failure."""
    failed = False
    for name, check in checks.items():
        try:
            check()
            print(json.dumps({"check": name, "ok": True}), flush=True)
        except Exception as error:
            failed = True
            text = "".join(traceback.format_exception(error))
            print(json.dumps({"check": name, "ok": False, "why": text}), flush=True)
    sys.exit(failed)


def raises(action, *codes):
    """The SQLSTATE of the error that `action` must raise; one of `codes`."""
    try:
        action()
    except Exception as error:
        found = sqlstate(error)
        assert found in codes, f"{found}: {error!r}"
        return error
    raise AssertionError("no error")


def sqlstate(error):
    """Of the error, or of what it was raised from: libraries wrap those of drivers."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            if getattr(error, name, None):
                return getattr(error, name)
        if error.args and isinstance(error.args[0], dict):
            return error.args[0].get("C")
        error = getattr(error, "orig", None) or error.__cause__
    return None
