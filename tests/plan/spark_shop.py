"""The troubled shop on Spark Connect: the rows and neighbours of `plan_harness.Shop`, as Parquet files that a server reads.

Knows: `plan_harness.Shop`, Spark Connect. Must not know: how a server is started (`spark_servers`). DuckDB's ends of the calendar
are in the files: Spark's own calendar is shorter, so each of its functions meets dates it does not have.
"""

from __future__ import annotations

import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import plan_harness
import pyarrow as pa
import pyarrow.parquet as pq
import shop_world

TYPES = {
    "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "double": "DOUBLE", "string": "STRING", "bool": "BOOLEAN",
    "date32[day]": "DATE", "timestamp[us]": "TIMESTAMP_NTZ", "decimal128(12, 2)": "DECIMAL(12, 2)",
    "decimal128(8, 2)": "DECIMAL(8, 2)",
}  # fmt: skip

AT_ONCE = 3
"""Statements: a server plans each in one thread, and two processors are to be busy."""


class SparkShop:
    """Databases of a server, one for each neighbour of a shop in DuckDB."""

    def __init__(self, session: Any, folder: Path, shop: Any, *, neighbours: bool = True) -> None:
        self._session, self._prefix = session, f"shop_{uuid.uuid4().hex[:8]}"
        self.units = shop.units
        self._others = (plan_harness.NOBODY, plan_harness.SHUFFLED, *shop.units) if neighbours else ()
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._beside: tuple[str, dict[int | str, Future[pa.Table]]] = "", {}
        for unit in (None, *self._others):
            self._fill(folder / self._database(unit), unit, shop)

    def _database(self, unit: int | str | None) -> str:
        return f"{self._prefix}_{'main' if unit is None else unit}"

    def _fill(self, folder: Path, unit: int | str | None, shop: Any) -> None:
        database = self._database(unit)
        self._session.sql(f"CREATE DATABASE {database}").collect()
        folder.mkdir()
        for table in shop_world.TABLES:
            rows = shop.run(f'SELECT * FROM "main".{table}', unit)
            (folder / table).mkdir()
            pq.write_table(rows, folder / table / "rows.parquet")
            columns = ", ".join(f"`{f.name}` {TYPES[str(f.type)]}" for f in rows.schema)
            ddl = f"CREATE TABLE {database}.{table} ({columns}) USING parquet LOCATION '{folder / table}'"
            self._session.sql(ddl).collect()

    def run(self, sql: str, unit: int | str | None = None) -> pa.Table:
        """A generated statement on the database, or on the neighbour that differs by `unit`. Raises ValueError.

        Who asks one neighbour will ask all of them: they are asked at once, and a statement's answers kept until the next.
        """
        if unit is None:
            return self._asked(sql, None)
        if sql != self._beside[0]:
            self._beside = sql, {other: self._pool.submit(self._asked, sql, other) for other in self._others}
        return self._beside[1][unit].result()

    def _asked(self, sql: str, unit: int | str | None) -> pa.Table:
        try:
            return self._session.sql(sql.replace("`main`.", f"`{self._database(unit)}`.")).toArrow()
        except Exception as error:  # the client raises what the server names, and gRPC's own
            raise ValueError(f"{type(error).__name__}: {str(error)[:400]}") from None

    def execute(self, sql: str) -> None:
        raise NotImplementedError("files are not changed")

    def takes(self, sql: str) -> bool:
        return True
