"""Tables of other engines' pages about differential privacy, and policies over them, for the statements of these pages.

Each world is a data set: the codelab's restaurant, GoogleSQL's professors, Snowflake's tables, and the orders of tools' formulas.
"""

from __future__ import annotations

from typing import Final

_BOUNDS = "bounds: { rows_per_group: 3, groups: 2 }"
_HEAD = """
version: 1
dataset: {world}
backend: {{ duckdb: {world}.duckdb }}
budget: {{ epsilon: 1000, delta: 1e-3 }}
roles: {{ analyst: {{ budget: {{ epsilon: 100, delta: 1e-4 }}, query: {{ epsilon: 1, max_epsilon: 10, delta: 1e-6 }} }} }}
users: {{}}
"""
_WEEK = """
    unit: visitorid
    bounds: { rows_per_group: 1, groups: 7 }
    columns:
      visitorid: unit
      Time spent (minutes): { range: [0, 240] }
      Money spent (euros): { range: [0, 100] }
      day: { values: [1, 2, 3, 4, 5, 6, 7] }
"""
_ITEMS = f"{{ unit: id, unique: false, {_BOUNDS}, columns: {{ id: unit, item: {{}}, quantity: {{ range: [0, 200] }} }} }}"

TABLES: Final = {
    "codelab": """
CREATE TABLE day_data (visitorid INTEGER, "Time entered" VARCHAR, "Time spent (mins)" INTEGER, "Money spent (euros)" INTEGER);
CREATE TABLE week_data (visitorid INTEGER, "Time spent (minutes)" INTEGER, "Money spent (euros)" INTEGER, day INTEGER);
CREATE TABLE outliers_week_data (visitorid INTEGER, "Time spent (minutes)" INTEGER, "Money spent (euros)" INTEGER, day INTEGER);
""",
    "googlesql": """
CREATE TABLE professors (id INTEGER, item VARCHAR, quantity INTEGER);
CREATE TABLE students (id INTEGER, item VARCHAR, quantity INTEGER);
CREATE TABLE table_a (id INTEGER, column_a VARCHAR, column_b INTEGER);
CREATE TABLE wikidata (id INTEGER, es_description VARCHAR);
CREATE TABLE examtable (id INTEGER, last_name VARCHAR, test_id VARCHAR, test_score INTEGER);
""",
    "snowflake": """
CREATE TABLE t1 (id INTEGER, num_claims INTEGER, a INTEGER, b INTEGER, age INTEGER, score INTEGER, score_derived INTEGER);
CREATE TABLE t2 (a INTEGER PRIMARY KEY, c VARCHAR);
CREATE TABLE T (id INTEGER, key VARCHAR, state VARCHAR, x INTEGER, income DOUBLE, age INTEGER, salary DOUBLE, a INTEGER, b INTEGER);
CREATE TABLE my_table (id INTEGER, state VARCHAR, age INTEGER, salary DOUBLE);
CREATE TABLE patients (patient_id VARCHAR, zip_code VARCHAR, birth_state VARCHAR, insurance_type VARCHAR, bmi DOUBLE);
CREATE TABLE geo_lookup (zip_code VARCHAR PRIMARY KEY, state VARCHAR);
CREATE TABLE doctor_visits (patient_id VARCHAR, visit_reason VARCHAR);
CREATE TABLE sales (id INTEGER, product VARCHAR, a INTEGER);
CREATE TABLE employees (employee_id INTEGER, department VARCHAR, salary DOUBLE);
CREATE TABLE dp_tutorial_diabetes_survey (patient_id VARCHAR, gender VARCHAR, age INTEGER, has_diabetes BOOLEAN, income_code INTEGER);
""",
    "tools": """
CREATE TABLE orders (order_id BIGINT, id INTEGER, ts TIMESTAMP, due DATE, amount DOUBLE, weight DOUBLE, qty INTEGER, big BIGINT,
  status VARCHAR, category VARCHAR, coupon VARCHAR, paid BOOLEAN);
CREATE TABLE customers (id INTEGER PRIMARY KEY, region VARCHAR);
""",
}

_POLICIES = {
    "codelab": f"""
privacy_unit: {{ name: visitor, key: day_data.visitorid }}
tables:
  day_data:
    unit: visitorid
    unique: false
    bounds: {{ rows_per_group: 1, groups: 1 }}
    columns: {{ visitorid: unit, Time entered: {{}}, Time spent (mins): {{ range: [0, 240] }}, Money spent (euros): {{ range: [0, 100] }} }}
  week_data: {_WEEK}
  outliers_week_data: {_WEEK}
""",
    "googlesql": f"""
privacy_unit: {{ name: professor, key: professors.id }}
tables:
  professors: {_ITEMS}
  students: {_ITEMS}
  table_a: {{ unit: id, {_BOUNDS}, columns: {{ id: unit, column_a: {{}}, column_b: {{ range: [0, 9] }} }} }}
  wikidata: {{ unit: id, {_BOUNDS}, columns: {{ id: unit, es_description: {{}} }} }}
  examtable: {{ unit: id, {_BOUNDS}, columns: {{ id: unit, last_name: {{}}, test_id: {{}}, test_score: {{ range: [200, 800] }} }} }}
views: {{ view_on_professors: "SELECT id, item, quantity FROM professors", view_on_students: "SELECT id, item, quantity FROM students" }}
""",
    "snowflake": f"""
privacy_unit: {{ name: person, key: t1.id }}
tables:
  t1:
    unit: id
    unique: false
    {_BOUNDS}
    columns: {{ id: unit, num_claims: {{ range: [0, 50] }}, a: {{ range: [0, 9] }}, b: {{ range: [0, 9] }}, age: {{ range: [0, 120] }},
               score: {{ range: [0, 100] }}, score_derived: {{}} }}
  t:
    unit: id
    {_BOUNDS}
    columns: {{ id: unit, key: {{}}, state: {{}}, x: {{ range: [0, 10] }}, income: {{ range: [0, 100000] }}, age: {{ range: [0, 120] }},
               salary: {{ range: [0, 100000] }}, a: {{}}, b: {{}} }}
  my_table: {{ unit: id, {_BOUNDS}, columns: {{ id: unit, state: {{}}, age: {{ range: [0, 120] }}, salary: {{ range: [0, 100000] }} }} }}
  patients:
    unit: patient_id
    {_BOUNDS}
    columns: {{ patient_id: unit, zip_code: {{}}, birth_state: {{}}, insurance_type: {{}}, bmi: {{ range: [10, 60] }} }}
  doctor_visits: {{ unit: patient_id, {_BOUNDS}, columns: {{ patient_id: unit, visit_reason: {{}} }} }}
  sales: {{ unit: id, {_BOUNDS}, columns: {{ id: unit, product: {{}}, a: {{ range: [0, 1000] }} }} }}
  employees: {{ unit: employee_id, {_BOUNDS}, columns: {{ employee_id: unit, department: {{}}, salary: {{ range: [0, 200000] }} }} }}
  dp_tutorial_diabetes_survey:
    unit: patient_id
    {_BOUNDS}
    columns: {{ patient_id: unit, gender: {{ values: [female, male, other] }}, age: {{ range: [0, 90] }}, has_diabetes: {{}},
               income_code: {{ range: [1, 8] }} }}
  t2: {{ public: true }}
  geo_lookup: {{ public: true }}
""",
    "tools": f"""
privacy_unit: {{ name: customer, key: customers.id }}
tables:
  customers: {{ unit: id, columns: {{ id: unit, region: {{}} }} }}
  orders:
    unit: id
    {_BOUNDS}
    columns: {{ order_id: key, id: unit, ts: {{ range: [2024-01-01, 2024-06-30] }}, due: {{ range: [2024-01-01, 2024-12-31] }},
               amount: {{ range: [0, 1000] }}, weight: {{ range: [-5, 50] }}, qty: {{ range: [0, 20] }}, big: {{ range: [0, 1000] }},
               status: {{ values: [open, paid] }}, category: {{}}, coupon: {{}}, paid: {{}} }}
""",
}


def policy(world: str) -> str:
    """The policy of a world, in YAML."""
    return _HEAD.format(world=world) + _POLICIES[world]
