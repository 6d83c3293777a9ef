"""A manifest of dbt as tables of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from dpproxy.authoring.dbt import DbtError, compiled, read_project


def node(name: str, meta: object = None, columns: dict[str, object] | None = None, **more: Any) -> dict[str, Any]:
    told = {} if meta is None else {"dpproxy": meta}
    named = {c: {"name": c, "meta": {} if m is None else {"dpproxy": m}} for c, m in (columns or {}).items()}
    return {"resource_type": "model", "name": name, "alias": name, "schema": "main", "meta": told, "columns": named, **more}


def accepted(table: str, column: str, values: list[object], **config: object) -> dict[str, Any]:
    kwargs = {"column_name": column, "values": values, "model": "{{ get_where_subquery(ref('x')) }}"}
    return {
        "resource_type": "test",
        "test_metadata": {"name": "accepted_values", "kwargs": kwargs},
        "column_name": column,
        "attached_node": table,
        "config": config,
    }


def manifest(nodes: dict[str, Any], sources: dict[str, Any] | None = None) -> dict[str, Any]:
    version = "https://schemas.getdbt.com/dbt/manifest/v12.json"
    return {"metadata": {"dbt_schema_version": version}, "nodes": nodes, "sources": sources or {}}


PEOPLE = node("people", {"unit": "id"}, {"id": "unit", "region": {}, "email": None, "age": {"range": [0, 120]}})
ORDERS = node("orders", {"unit": "person_id", "bounds": {"rows": 5}}, {"person_id": "unit"}, group="finance", schema="shop")


def test_tables_columns_and_accepted_values() -> None:
    nodes = {
        "model.p.people": PEOPLE,
        "model.p.orders": ORDERS,
        "model.p.secret": node("secret", None, {"x": {}}),
        "test.p.a": accepted("model.p.people", "region", ["east", "west"]),
        "test.p.b": accepted("model.p.people", "age", [1, 2]),
        "test.p.c": accepted("model.p.orders", "person_id", [1]),
    }
    project = read_project(manifest(nodes))
    assert project.tables == {
        "people": {
            "unit": "id",
            "columns": {"id": "unit", "region": {"values": ["east", "west"]}, "age": {"range": [0, 120]}},
        },
        "shop.orders": {"unit": "person_id", "bounds": {"rows": 5}, "columns": {"person_id": "unit"}},
    }
    assert project.groups == {"finance": ["shop.orders"]}
    assert project.origins["shop.orders"] == "model.p.orders, group finance"


def test_a_test_with_a_condition_declares_nothing() -> None:
    nodes = {"model.p.people": PEOPLE, "test.p.a": accepted("model.p.people", "region", ["east"], where="age > 3")}
    assert read_project(manifest(nodes)).tables["people"]["columns"]["region"] == {}


def test_sources_seeds_and_the_place_of_meta_in_dbt_1_10() -> None:
    seed = node("regions", None, resource_type="seed", config={"meta": {"dpproxy": {"public": True}}})
    source = node("visits", {"unit": "id"}, resource_type="source", identifier="raw_visits", schema="public")
    project = read_project(manifest({"seed.p.regions": seed}, {"source.p.visits": source}))
    assert project.tables == {"regions": {"public": True}, "raw_visits": {"unit": "id"}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "no manifest"),
        (manifest({"model.p.a": node("a")}), "says anything"),
        (manifest({"model.p.a": node("a", "public")}), "is a mapping"),
        (manifest({"model.p.a": node("a", {}, {"x": 3})}), "column `x`"),
        (manifest({"model.p.a": node("a", {"public": True}), "model.q.a": node("a", {"public": True})}), "two tables `a`"),
    ],
)
def test_what_is_no_policy(found: dict[str, Any], said: str) -> None:
    with pytest.raises(DbtError, match=said):
        read_project(found)


def test_roles_by_group() -> None:
    project = read_project(manifest({"model.p.people": PEOPLE, "model.p.orders": ORDERS}))
    base = {"dataset": "d", "roles": {"a": {"tables": ["people", "group:finance", "shop.orders"]}, "b": {"min_units": 3}}}
    made = compiled(base, project)
    assert made["roles"] == {"a": {"tables": ["people", "shop.orders"]}, "b": {"min_units": 3}}
    assert made["tables"] == project.tables
    with pytest.raises(DbtError, match="groups with tables: `finance`"):
        compiled({"roles": {"a": {"tables": ["group:sales"]}}}, project)
    with pytest.raises(DbtError, match="has no `tables`"):
        compiled({"tables": {"x": {}}}, project)
