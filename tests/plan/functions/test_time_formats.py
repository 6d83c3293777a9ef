"""Times by a format: what strftime prints is printed by it, what it cannot print is computed, the rest is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

import duckdb
import psycopg
import pytest
from scratch_postgres import scratch_server

from dpproxy.engines.duckdb import DuckDB
from dpproxy.errors import Refusal
from dpproxy.plan.functions.time_formats import KEYWORDS, strftime, to_char, to_date, to_timestamp
from dpproxy.tree.expr import Call, Expr, Hole, Lit

STAMP = Lit("timestamp", "2024-03-05 16:07:09")


def value(expr: Expr) -> object:
    """What the expression is, computed by DuckDB."""
    (row,) = duckdb.connect().execute(f"SELECT {DuckDB().expr(expr, {})}").fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("YYYY-MM-DD HH24:MI:SS", "2024-03-05 16:07:09"), ("DD.MM.YY", "05.03.24"), ("FMDD/FMMM", "5/3"), ("HH12 AM", "04 PM"),
        ("Q", "1"), ("IYYY-IW", "2024-10"), ("WW", "10"), ("D", "3"), ("ID", "2"), ("FMDDD", "65"), ("FMMonth", "March"),
        ("MON", "MAR"), ("FMday", "tuesday"), ("Day", "Tuesday  "), ('"week" IW', "week 10"),
        ("SSSS", "58029"), ("SSSSS", "58029"), ("IDDD", "065"), ("P.M.", "P.M."), ("Mm", "Mm"), ("YYYY-WHH", "2024-104"),
        ("YYYYTDD", "2024T05"),
    ],
)  # fmt: skip
def test_formats_are_postgresqls(form: str, text: str) -> None:
    assert value(to_char((STAMP, Lit("unknown", form)))) == text


def test_a_format_that_strftime_prints_is_one_call() -> None:
    made = to_char((Hole("timestamp", 0), Lit("unknown", "YYYY-MM")))
    assert isinstance(made, Call)
    assert (made.op, made.args[1]) == ("strftime", Lit("text", "%Y-%m"))


def test_strftime_takes_its_format_first_or_last() -> None:
    first, last = strftime((Lit("unknown", "%d/%m/%Y"), STAMP)), strftime((STAMP, Lit("unknown", "%d/%m/%Y")))
    assert first == last
    assert value(first) == "05/03/2024"
    with pytest.raises(Refusal, match="strftime"):
        strftime((STAMP, Lit("unknown", "%Q")))


@pytest.mark.parametrize("form", ["J", "RM", "US", "TZ", "Y,YYY", "DDth", "TMMonth", "DDSP", "FF3", "IYY", r"\YYYY", 'YYYY"', ""])
def test_other_formats_are_refused(form: str) -> None:
    with pytest.raises(Refusal, match="to_char"):
        to_char((STAMP, Lit("unknown", form)))


@pytest.mark.parametrize(
    ("text", "form", "date"),
    [
        ("05.03.2024", "DD.MM.YYYY", "2024-03-05"), ("3/5/2024", "MM/DD/YYYY", "2024-03-05"), ("20240305", "YYYYMMDD", "2024-03-05"),
        ("2024-03", "YYYY-MM", "2024-03-01"), ("2024-03-05", "DD.MM.YYYY", "None"), ("5 March", "DD.MM.YYYY", "None"),
        ("2024-01", "IYYY-IW", "2024-01-01"), ("2020-53", "IYYY-IW", "2020-12-28"), ("2021-1", "iyyy-iw", "2021-01-04"),
        ("2024-54", "IYYY-IW", "None"), ("2024-00", "IYYY-IW", "None"),
    ],
)  # fmt: skip
def test_texts_that_are_dates(text: str, form: str, date: str) -> None:
    assert str(value(to_date((Lit("text", text), Lit("unknown", form))))) == date


def test_a_time_of_day_may_follow() -> None:
    made = to_timestamp((Lit("text", "05.03.2024 16:07:09"), Lit("unknown", "DD.MM.YYYY HH24:MI:SS")))
    assert str(value(made)).startswith("2024-03-05 16:07:09")
    with pytest.raises(Refusal, match="to_date"):
        to_date((Lit("text", "x"), Lit("unknown", "DD.MM.YYYY HH24:MI:SS")))


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with (
        scratch_server(tmp_path_factory.mktemp("templates")) as server,
        psycopg.connect(server.conninfo(), autocommit=True) as connection,
    ):
        yield connection


def templates(rng: random.Random) -> str:
    """A format of keywords of all sorts in any order: some run into each other, some are cut short or of mixed case."""
    parts = [rng.choice(KEYWORDS) for _ in range(rng.randint(1, 3))]
    cut = [rng.choice((part, part, part, part[: rng.randint(1, len(part))], part.swapcase(), part.title())) for part in parts]
    return "".join(rng.choice(("", "", "FM", "fm")) + part + rng.choice(("", "", "-", " ", '"on"', "th", "x")) for part in cut)


def test_each_template_is_read_as_postgresql_reads_it(postgres: psycopg.Connection) -> None:
    rng, printed = random.Random(37), 0
    for form in [*KEYWORDS, *(templates(rng) for _ in range(800))]:
        stamp = (datetime(2019, 12, 25) + timedelta(seconds=rng.randrange(800 * 86_400))).isoformat(" ")
        try:
            made = to_char((Lit("timestamp", stamp), Lit("unknown", form)))
        except Refusal:
            continue
        printed += 1
        (wanted,) = postgres.execute("SELECT to_char(%s::timestamp, %s)", (stamp, form)).fetchall()[0]
        assert value(made) == wanted, (form, stamp)
    assert printed > 250, "or nothing is shown"
