"""Apache Superset without a browser: a database, data sets, a dashboard of ten charts, filter values, SQL Lab.

Runs in an environment that has Superset, with its metadata prepared. Superset's own cache is passed by, so that the
second load of the dashboard asks the proxy everything again.
"""

import json
import os
import shutil
import tempfile
from importlib.metadata import version as version_of

import psycopg2

from checks import close, environment, run, version

scratch = tempfile.TemporaryDirectory()
shutil.copy(os.path.join(os.environ["SUPERSET_HOME"], "superset.db"), scratch.name)
os.environ["SUPERSET_HOME"] = scratch.name

from superset.app import create_app  # noqa: E402 - it reads its settings now

host, port, user, password, name = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
URI = f"postgresql+psycopg2://{user}:{password.replace(' ', '%20')}@{host}:{port}/{name}"
version(version_of("apache-superset"))
client = create_app().test_client()
known = {}  # ids of what was made


def call(method, path, body=None, ok=(200, 201)):
    answer = getattr(client, method)(path, json=body)
    found = answer.get_json(silent=True)
    assert answer.status_code in ok, f"{method} {path}: {answer.status_code} {answer.get_data(as_text=True)[:1500]}"
    return found


def asked(sql):
    """By a connection beside Superset's."""
    with psycopg2.connect("") as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return float(cursor.fetchone()[0])


def spent():
    return asked("SELECT epsilon_spent FROM dpproxy.budget WHERE scope = 'role'")


def rows(query, dataset="people"):
    """The result of a chart's query, asked anew."""
    body = {
        "datasource": {"id": known[dataset], "type": "table"},
        "force": True,
        "queries": [{"row_limit": 1000, "filters": [], "orderby": [], "columns": [], **query}],
        "result_format": "json",
        "result_type": "full",
    }
    (result,) = call("post", "/api/v1/chart/data", body)["result"]
    assert result["error"] is None, result["error"]
    return result["data"]


def metric(sql, label):
    return {"expressionType": "SQL", "sqlExpression": sql, "label": label}


def monthly(column):
    return {"columnType": "BASE_AXIS", "sqlExpression": column, "label": column, "expressionType": "SQL", "timeGrain": "P1M"}


N, HEIGHT, INCOME = metric("COUNT(*)", "n"), metric("AVG(height)", "height"), metric("SUM(income)", "income")
EAST_WEST = [{"col": "region", "op": "IN", "val": ["east", "west"]}]
DASHBOARD = {
    "persons": ("big_number_total", {"metrics": [N]}, "people", 1),
    "persons by region": ("pie", {"columns": ["region"], "metrics": [N], "orderby": [[N, False]]}, "people", 4),
    "height by region and member": ("dist_bar", {"columns": ["region", "member"], "metrics": [HEIGHT]}, "people", 8),
    "joined by month": ("echarts_timeseries_line", {"columns": [monthly("joined")], "metrics": [N]}, "people", 12),
    "income by region": ("table", {"columns": ["region"], "metrics": [INCOME, N, HEIGHT]}, "people", 4),
    "members in two regions": ("table", {"columns": ["member"], "metrics": [N], "filters": EAST_WEST}, "people", 2),
    "income by member and region": ("pivot_table_v2", {"columns": ["member", "region"], "metrics": [INCOME]}, "people", 8),
    "tall regions": ("table", {"columns": ["region"], "metrics": [N], "extras": {"having": "COUNT(*) > 100"}}, "people", 4),
    "paid by shop": ("echarts_timeseries_bar", {"columns": ["shop"], "metrics": [metric("SUM(paid)", "paid")]}, "visits", 3),
    "best shop": ("table", {"columns": ["shop"], "metrics": [N], "orderby": [[N, False]], "row_limit": 1}, "visits", 1),
}


def catalog():
    client.post("/login/", data={"username": "admin", "password": "admin"})
    call("post", "/api/v1/database/test_connection/", {"sqlalchemy_uri": URI, "database_name": "town"})
    made = call("post", "/api/v1/database/", {"sqlalchemy_uri": URI, "database_name": "town", "expose_in_sqllab": True})
    known["database"] = made["id"]
    assert "public" in call("get", f"/api/v1/database/{made['id']}/schemas/")["result"]
    tables = call("get", f"/api/v1/database/{made['id']}/tables/?q=(schema_name:public)")["result"]
    assert {t["value"] for t in tables} == {"people", "visits", "shops"}, tables
    for table in ("people", "visits", "shops"):
        body = {"database": made["id"], "schema": "public", "table_name": table}
        known[table] = call("post", "/api/v1/dataset/", body)["id"]
    columns = call("get", f"/api/v1/dataset/{known['people']}")["result"]["columns"]
    types = {c["column_name"]: c["type"] for c in columns}
    assert types["region"] == "TEXT" and types["joined"].startswith("TIMESTAMP") and "email" not in types, types


def charts():
    """Made as a user's clicks make them."""
    for title, (kind, query, dataset, _) in DASHBOARD.items():
        body = {"slice_name": title, "viz_type": kind, "datasource_id": known[dataset], "datasource_type": "table"}
        known[title] = call("post", "/api/v1/chart/", {**body, "params": json.dumps(query)})["id"]
    row = {"ROW": {"id": "ROW", "type": "ROW", "children": list(DASHBOARD), "parents": ["ROOT_ID", "GRID_ID"]}}
    tiles = {t: {"id": t, "type": "CHART", "children": [], "meta": {"chartId": known[t], "width": 4}} for t in DASHBOARD}
    layout = {"DASHBOARD_VERSION_KEY": "v2", **row, **tiles}
    made = call("post", "/api/v1/dashboard/", {"dashboard_title": "town", "position_json": json.dumps(layout)})
    known["dashboard"] = made["id"]
    assert call("get", f"/api/v1/dashboard/{made['id']}/datasets")["result"] is not None


def load():
    """Every chart of the dashboard, and what it cost."""
    before = spent()
    for title, (_, query, dataset, expected) in DASHBOARD.items():
        found = rows(query, dataset)
        assert len(found) >= expected, (title, found)
    return spent() - before


def answer():
    charts()
    first, second = load(), load()
    price = asked("SHOW dpproxy.epsilon")
    said = f"a dashboard of {len(DASHBOARD)} charts at epsilon {price:g} a query: {first:g} at its first load, {second:g} at its second"
    print(json.dumps({"note": said}), flush=True)
    assert first > 0 and second == 0, (first, second)
    assert close(rows(DASHBOARD["persons"][1])[0]["n"], 1000, 5)


def parameters():
    """The values of a filter, by both ways Superset has; then the filter."""
    values = {row["region"] for row in rows({"columns": ["region"], "metrics": [], "orderby": [["region", True]]})}
    assert values == {"east", "north", "south", "west"}, values
    path = f"/api/v1/datasource/table/{known['people']}/column/region/values/"
    assert set(call("get", path)["result"]) == values
    within = {"filters": [{"col": "region", "op": "==", "val": "east"}], "metrics": [N]}
    assert close(rows(within)[0]["n"], 250, 5)


def types():
    found = rows({"columns": [monthly("joined")], "metrics": [N, INCOME]})
    assert len(found) >= 12 and all(isinstance(row["joined"], (int, float)) for row in found), found[:2]


def lab(sql, ok=(200,)):
    body = {"database_id": known["database"], "sql": sql, "schema": "public", "client_id": os.urandom(5).hex(), "runAsync": False}
    return call("post", "/api/v1/sqllab/execute/", {**body, "queryLimit": 100, "select_as_cta": False}, ok)


def prepared():
    found = lab("SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY region")["data"]
    assert [row["region"] for row in found] == ["east", "north", "south", "west"] and close(found[0]["n"], 250, 5), found
    assert len(lab("SELECT * FROM shops")["data"]) == 3


def errors():
    """SQL Lab shows the refusal; a table's preview, which every click on a table asks for, spends nothing."""
    before = spent()
    refused = lab("SELECT * FROM people", ok=(200, 400, 422, 500))
    assert "aggregates over many" in json.dumps(refused), refused
    assert spent() == before
    assert lab("SELECT count(*) AS n FROM people")["data"]


run(catalog=catalog, answer=answer, parameters=parameters, types=types, prepared=prepared, errors=errors)
