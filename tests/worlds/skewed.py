"""Two small datasets in the shape of real ones that answers were wrong of: customers with purchases, planes with flights.

Knows: SQL of DuckDB, policies. Must not know: the planner. Everything is made by formulas, so that every run has the same rows.
Most customers bought once or twice, the heaviest hundreds of times and elsewhere than others; prices are skewed. Delays are NULL
where a flight was cancelled, a few lie beyond their declared range, a few carriers are not declared, and some flights have no plane.
Each of `SHOP` and `FLIGHTS` is a policy of dataset `town`, for `tests.worlds.town.town(folder, DATA, ...)`.
"""

from __future__ import annotations

DATA = """
CREATE TABLE customers AS
    SELECT i AS id, ['east', 'north', 'south', 'west'][1 + i % 4] AS region,
        DATE '2023-01-01' + CAST((i * 7919) % 540 AS INTEGER) AS first_day,
        CASE WHEN i % 17 > 0 THEN 1940 + (i * 31) % 65 END AS birth_year
    FROM range(2400) AS t(i);
CREATE TABLE purchases AS
    SELECT row_number() OVER (ORDER BY c.id, j) AS id, CASE WHEN (c.id + j) % 50 > 0 THEN c.id END AS customer,
        CAST(c.first_day + CAST((j * j * 37) % 400 AS INTEGER) AS TIMESTAMP) + INTERVAL 1 HOUR * (j % 24) AS bought,
        CASE WHEN (c.id + j) % 40 > 0
            THEN ['books', 'food', 'games', 'tools', 'toys', 'vinyl'][1 + CAST(CASE WHEN c.id % 400 = 0 THEN 4 ELSE (c.id * 13 + j * j) % 6 END AS INTEGER)]
        END AS category,
        CAST(round(5 + 4 * exp(((c.id * 37 + j * 101) % 97) / 30.0), 2) AS DECIMAL(10,2)) AS amount
    FROM customers AS c, range(400) AS u(j)
    WHERE j < CASE WHEN c.id % 400 = 0 THEN 400 WHEN c.id % 40 = 0 THEN 30 WHEN c.id % 4 = 0 THEN 3 ELSE 1 END;
CREATE TABLE planes AS SELECT 'N' || i AS tailnum, 1980 + i % 35 AS year FROM range(1500) AS t(i);
UPDATE planes SET year = NULL WHERE CAST(tailnum[2:] AS INTEGER) % 23 = 0;
CREATE TABLE flights AS
    SELECT i AS id, CASE WHEN i % 100 > 0 THEN 'N' || ((i * 7) % 1500) END AS tailnum,
        ['AA', 'B6', 'DL', 'UA', 'ZZ'][1 + CAST(CASE WHEN i % 101 = 0 THEN 4 ELSE i % 4 END AS INTEGER)] AS carrier,
        CASE WHEN i % 41 > 0 THEN CAST(CASE WHEN i % 997 = 0 THEN 1301 ELSE (i * 53) % 211 - 40 END AS INTEGER) END AS dep_delay,
        TIMESTAMP '2023-01-01' + INTERVAL 1 HOUR * CAST(i % 8760 AS INTEGER) AS departed,
        i % 3 = 0 AS weekend
    FROM range(12000) AS t(i);
UPDATE flights SET weekend = NULL WHERE id % 61 = 0;
"""

_ROLES = """
roles:
  analyst:
    budget: { epsilon: 100000, delta: 1e-2, every: month }
    query: { epsilon: 10, max_epsilon: 100, delta: 1e-6 }
"""

USERS = """users:
  ada: { role: analyst, password: "VERIFIER" }
"""

SHOP = f"""
version: 1
dataset: town
backend: {{ duckdb: town.duckdb }}
privacy_unit: {{ name: customer, key: customers.id }}
budget: {{ epsilon: 100000, delta: 1e-2, every: year }}
tables:
  customers:
    unit: id
    columns:
      id: unit
      region: {{ values: [east, north, south, west] }}
      first_day: {{ range: [2023-01-01, 2024-12-31] }}
      birth_year: {{ range: [1930, 2010] }}
  purchases:
    unit: customer
    bounds: {{ rows: 10 }}
    columns:
      id: key
      customer: unit
      bought: {{ range: [2023-01-01, 2025-12-31] }}
      category: {{ values: [books, food, games, tools, toys] }}
      amount: {{ range: [0, 200], resolution: 0.01 }}
{_ROLES}{USERS}"""

FLIGHTS = f"""
version: 1
dataset: town
backend: {{ duckdb: town.duckdb }}
privacy_unit: {{ name: plane, key: planes.tailnum }}
budget: {{ epsilon: 100000, delta: 1e-2, every: year }}
tables:
  planes:
    unit: tailnum
    columns: {{ tailnum: unit, year: {{ range: [1950, 2020] }} }}
  flights:
    unit: tailnum
    bounds: {{ rows_per_group: 20, groups: all }}
    columns:
      id: key
      tailnum: unit
      carrier: {{ values: [AA, B6, DL, UA] }}
      dep_delay: {{ range: [-60, 1300] }}
      departed: {{ range: [2023-01-01, 2023-12-31] }}
      weekend: {{}}
{_ROLES}{USERS}"""
