"""TPC-H's queries over customers' orders and lineitems, beside the raw ones, in DuckDB: customers are the units, `rows: 100`.

Knows: the queries with the specification's validation parameters, the corpus' policy for these tables, `tpchgen-cli`, which makes
the data (`pip install tpchgen-cli`). Must not know: noise. Of the other queries some show rows of single customers, or orders,
and are refused; others are about suppliers and parts, which are public here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import bench_duckdb
import duckdb
from bench_duckdb import Query

ROWS = 100
POLICY = Path(__file__).resolve().parent.parent / "tests" / "corpus" / "policies" / "tpch.yaml"
TABLES = ("customer", "orders", "lineitem", "part", "partsupp", "supplier", "nation", "region")

VOLUME = "l_extendedprice * (1 - l_discount)"

QUERIES = (
    Query("q01", "pricing summary", f"""
        SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
               sum({VOLUME}) AS sum_disc_price, sum({VOLUME} * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
               avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= date '1998-09-02'
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus"""),
    Query("q04", "order priority", """
        SELECT o_orderpriority, count(*) AS order_count FROM orders
        WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-10-01'
          AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority"""),
    Query("q05", "local supplier volume", f"""
        SELECT n_name, sum({VOLUME}) AS revenue FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
          AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
          AND o_orderdate >= date '1994-01-01' AND o_orderdate < date '1995-01-01'
        GROUP BY n_name ORDER BY revenue DESC"""),
    Query("q06", "revenue change", """
        SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"""),
    Query("q07", "volume shipping", f"""
        SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue FROM (
          SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, extract(year FROM l_shipdate) AS l_year, {VOLUME} AS volume
          FROM supplier, lineitem, orders, customer, nation n1, nation n2
          WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
            AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
            AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
            AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31') AS shipping
        GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year"""),
    Query("q08", "market share", f"""
        SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS mkt_share FROM (
          SELECT extract(year FROM o_orderdate) AS o_year, {VOLUME} AS volume, n2.n_name AS nation
          FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
          WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
            AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
            AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31'
            AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
        GROUP BY o_year ORDER BY o_year"""),
    Query("q09", "product type profit", f"""
        SELECT nation, o_year, sum(amount) AS sum_profit FROM (
          SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year, {VOLUME} - ps_supplycost * l_quantity AS amount
          FROM part, supplier, lineitem, partsupp, orders, nation
          WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
            AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
        GROUP BY nation, o_year ORDER BY nation, o_year DESC"""),
    Query("q12", "shipping modes", """
        SELECT l_shipmode,
               sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
               sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
        FROM orders, lineitem
        WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
          AND l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date '1995-01-01'
        GROUP BY l_shipmode ORDER BY l_shipmode"""),
    Query("q14", "promotion effect", f"""
        SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {VOLUME} ELSE 0 END) / sum({VOLUME}) AS promo_revenue
        FROM lineitem, part
        WHERE l_partkey = p_partkey AND l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01'"""),
    Query("q19", "discounted revenue", f"""
        SELECT sum({VOLUME}) AS revenue FROM lineitem, part
        WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
               AND l_quantity >= 1 AND l_quantity <= 11 AND p_size BETWEEN 1 AND 5
               AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
           OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
               AND l_quantity >= 10 AND l_quantity <= 20 AND p_size BETWEEN 1 AND 10
               AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
           OR (p_partkey = l_partkey AND p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
               AND l_quantity >= 20 AND l_quantity <= 30 AND p_size BETWEEN 1 AND 15
               AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')"""),
)  # fmt: skip


def performance(work: Path, rounds: int, scale: float, only: Sequence[str] = ()) -> int:
    """Print the table. Data that are in `work` already are used again. Returns the exit status."""
    maker = shutil.which("tpchgen-cli")
    data = work / "tpch.duckdb"
    if not data.exists():
        if maker is None:
            print("tpch: `tpchgen-cli` is not here (pip install tpchgen-cli)", file=sys.stderr)
            return 1
        made(maker, data, scale)
    os.environ["DPPROXY_CORPUS"] = str(work)
    policy = re.sub(r"bounds: \{.*\}", f"bounds: {{ rows: {ROWS} }}", POLICY.read_text())
    bench_duckdb.table(data, f"rows {ROWS}", policy, QUERIES, rounds, f"TPC-H, scale {scale:g}", only)
    return 0


def made(maker: str, data: Path, scale: float) -> None:
    """Make the data, as the generator writes them."""
    folder = data.with_suffix(".parquet")
    command = [maker, "parquet", "--scale-factor", f"{scale:g}", "--output-dir", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with duckdb.connect(str(data)) as connection:
        for name in TABLES:
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder / name}.parquet'")
    shutil.rmtree(folder)
