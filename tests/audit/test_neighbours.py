"""The same statement on a database and beside it."""

from __future__ import annotations

from dpproxy.audit.bench import NOBODY, SHUFFLED, WHOLE, AuditBench

ROWS = "SELECT count(*) AS n, count(DISTINCT pid) AS units, count(*) FILTER (WHERE pid IS NULL) AS of_nobody FROM main.orders"


def test_each_neighbour_lacks_one_unit(small: AuditBench) -> None:
    run = small.neighbours.run
    whole = run(ROWS).to_pylist()[0]
    assert whole["of_nobody"] > 0
    for unit in small.neighbours.names[:3]:
        (found,) = run(ROWS, unit).to_pylist()
        assert found["units"] == whole["units"] - 1
        assert run(f"SELECT count(*) AS n FROM main.orders WHERE pid = {unit}", unit)["n"].to_pylist() == [0]
    assert run(ROWS, NOBODY).to_pylist()[0] == {**whole, "n": whole["n"] - whole["of_nobody"], "of_nobody": 0}
    order = "SELECT order_id FROM main.orders ORDER BY rowid"
    one, other = (run(order, name)["order_id"].to_pylist() for name in (WHOLE, SHUFFLED))
    assert one == other[::-1]


def test_files_are_neighbours_as_well(small: AuditBench) -> None:
    assert small.bench.catalog == small.other.catalog, "no shape may tell of a unit"
    assert small.whole.read_bytes() != small.without.read_bytes()
