"""A shop to hold policies against, policies that differ from a good one in one place, and schemas of twenty trades."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
from ruamel.yaml import YAML

from dpproxy.authoring.check_command import line
from dpproxy.authoring.checking import Depth, findings
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName

HERE = Path(__file__).parent
BASE = (HERE / "base.yaml").read_text()
VERIFIER = make_verifier("x", salt=b"0123456789abcdef")

HEAD = """# Mistakes in policies, and what `dpproxy policy check` says

Each line is a case of `tests/authoring/broken.yaml`: the good policy `tests/authoring/base.yaml` with one part replaced, held against a
small shop. `tests/authoring/test_checking.py` runs all of them, and `python tests/authoring/worlds.py` writes this page. Errors stop the
start; warnings and notes do not.

"""
TABLES = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, region VARCHAR, born SMALLINT, vip BOOLEAN, signup DATE, email VARCHAR);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, buyer INTEGER NOT NULL, ts TIMESTAMP, amount DECIMAL(8, 2), items INTEGER,
  category VARCHAR);
CREATE TABLE order_items (item INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, product_id INTEGER, quantity INTEGER, note VARCHAR,
  extras INTEGER[], spare INTEGER);
CREATE TABLE products (product_id INTEGER, name VARCHAR);
INSERT INTO products VALUES (1, 'ball');
CREATE TABLE contacts (customer_id INTEGER, email VARCHAR);
CREATE TABLE pulses (day DATE, likes BOOLEAN, mood_r BIGINT, device_id VARCHAR);
CREATE SCHEMA clinic;
CREATE TABLE clinic.visits (visit INTEGER);
INSERT INTO customers SELECT i, ['north', 'south'][1 + i % 2], 1950 + i, true, DATE '2021-01-01', 'x' FROM range(20) AS t(i);
INSERT INTO orders SELECT i, i % 20, TIMESTAMP '2024-06-01', 5, 1, 'toys' FROM range(60) AS t(i);
INSERT INTO order_items SELECT i, i % 60, 1, 2, 'x', NULL, i % 60 FROM range(90) AS t(i);
"""


def make(folder: Path) -> Path:
    """Make the shop's database, and files that are none."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(TABLES)
        connection.execute(f"COPY clinic.visits TO '{folder / 'visits.parquet'}'")
        connection.execute(f"COPY orders TO '{folder / 'visits.csv'}'")
    with sqlite3.connect(folder / "shop.sqlite") as other:
        other.execute("CREATE TABLE a (b)")
    return folder


def changed(old: str, new: str) -> str:
    """The good policy with one part replaced."""
    assert BASE.count(old) == 1, f"{old!r} must be in base.yaml exactly once"
    return BASE.replace(old, new).replace("VERIFIER", VERIFIER)


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = YAML(typ="safe").load((HERE / "broken.yaml").read_text())
    return found


def said(folder: Path, old: str, new: str) -> list[str]:
    """What `dpproxy policy check` says of the good policy with one part replaced, in a folder made by `make`."""
    path = folder / "p.yaml"
    path.write_text(changed(old, new))
    found = asyncio.run(findings([path], Depth.SHAPES))
    return [line(problem).removeprefix(f"{path}:").replace(str(folder), "FOLDER") for problem in found]


def page() -> str:
    """The page of mistakes, docs/policies/mistakes.md."""
    rows = ["| mistake | line:column | what is said | what to write | code |", "|---|---|---|---|---|"]
    for case in cases():
        for text in case["says"]:
            line_, column, rest = text.split(":", 2)
            what, _, fix = rest.removesuffix("]").strip().rpartition("; fix: ")
            fix, _, code = fix.rpartition(" [")
            cells = [case["name"], f"{line_}:{column}", what, fix, f"`{code}`"]
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return HEAD + "\n".join(rows) + "\n"


TYPES = {"i": "int4", "t": "text", "n": "numeric", "d": "timestamp"}

# A trade: the unit, then tables as `name(columns)`; those after `|` are catalogues, about nobody. A column is text unless it ends
# in `:i`, `:n`, `:d`, or in `:p`, an id of the unit.
TRADES = {
    "blog": "users.id users(id:i,login,joined:d) posts(id:i,author_id:p,title,at:d) comments(id:i,post_id:i,commenter:p,body) "
    "follows(follower:p,followed:p) | tags(id:i,label) languages(code,label)",
    "bank": "accounts.account_no accounts(account_no:i,opened:d,branch:i) payments(id:i,payer:p,payee:p,amount:n) "
    "cards(pan,account_no:p) logins(account:p,at:d) | branches(branch:i,city) currencies(iso,digits:i)",
    "clinic": "patients.id patients(id:i,sex,born:d) labs(id:p,code,result:n) visits(visit:i,patient:p,ward:i) "
    "next_of_kin(patient:p,name,phone) | wards(ward:i,floor:i) lab_codes(code,unit)",
    "school": "students.student_id students(student_id:i,year:i) marks(student_id:p,course:i,mark:n) "
    "parents(parent_id:i,student:p,email) teachers(id:i,name,wage:n) | courses(course:i,title) rooms(room,seats:i)",
    "shop": "customers.customer_id customers(customer_id:i,city) orders(order_id:i,customer_id:p,at:d) "
    "order_notes(order_id:i,body) reviews(id:i,reviewer:p,stars:i) | products(product_id:i,title,price:n) categories(id:i,label)",
    "chat": "members.member_id members(member_id:i,joined:d) messages(id:i,sender:p,receiver:p,body) "
    "blocks(blocker:p,blocked:p) | channels(channel:i,topic) emojis(code,label)",
    "logistics": "clients.client_id clients(client_id:i,city) parcels(parcel:i,client_id:p,weight:n) scans(parcel:i,depot:i,at:d) "
    "drivers(driver_id:i,name) | depots(depot:i,city) tariffs(zone:i,price:n)",
    "gym": "members.id members(id:i,born:d) checkins(member:p,at:d) trainers(id:i,name,wage:n) "
    "| plans(plan:i,price:n) machines(machine:i,label)",
    "hotel": "guests.guest_id guests(guest_id:i,country) stays(stay:i,guest_id:p,room:i) complaints(stay:i,body) "
    "| rooms(room:i,beds:i) seasons(season,factor:n)",
    "library": "readers.card_no readers(card_no:i,born:d) loans(card_no:p,item:i,due:d) fines(card:p,amount:n) "
    "| items(item:i,title) shelves(shelf,floor:i)",
    "telecom": "subscribers.msisdn subscribers(msisdn,plan:i) calls(caller:p,callee:p,seconds:i) sms(msisdn:p,at:d) "
    "| plans(plan:i,price:n) cells(cell:i,lat:n,lon:n)",
    "insurer": "persons.person_id persons(person_id:i,born:d) policies(policy_no:i,holder:p) claims(claim:i,policy_no:i,paid:n) "
    "| tariffs(tariff:i,rate:n) perils(peril,label)",
    "rides": "riders.rider_id riders(rider_id:i,city) trips(trip:i,rider_id:p,driver_id:i,fare:n) "
    "drivers(driver_id:i,license_no) | zones(zone:i,label) vehicle_types(code,seats:i)",
    "staff": "employees.emp_no employees(emp_no:i,hired:d) salaries(emp_no:p,salary:n) managers(emp_no:p,dept:i) "
    "absences(employee:p,day:d) | departments(dept:i,label) grades(grade:i,least:n)",
    "charity": "donors.donor_id donors(donor_id:i,city) gifts(donor_id:p,amount:n) letters(donor:p,body) "
    "| campaigns(campaign:i,title) funds(fund:i,label)",
    "dating": "users.user_id users(user_id:i,born:d) likes(liker:p,liked:p) photos(user_id:p,url) "
    "| interests(interest:i,label) cities(city:i,label)",
    "paper": "subscribers.subscriber_id subscribers(subscriber_id:i,city) reads(subscriber_id:p,article:i) letters(writer,body) "
    "| articles(article:i,title) sections(section,label)",
    "energy": "customers.customer_no customers(customer_no:i,zip) meters(meter:i,customer_no:p) readings(meter:i,at:d,kwh:n) "
    "| tariffs(tariff:i,price:n) substations(station:i,volts:i)",
    "airline": "passengers.passenger_id passengers(passenger_id:i,country) bookings(booking:i,passenger_id:p,flight:i) "
    "meals(booking:i,meal) crew(crew_id:i,name,phone) | flights(flight:i,origin,target) aircraft(tail,seats:i)",
    "games": "players.playerid players(playerid:i,country) matches(match:i,winner:p,loser:p) purchases(playerid:p,amount:n) "
    "salaries(playerid:p,year:i,salary:n) | maps(map:i,label) weapons(weapon:i,damage:n)",
}


def trade(text: str) -> tuple[tuple[TableName, str], Catalog, list[TableName]]:
    """The unit, the schema, its catalogues."""
    unit, rest = text.split(" ", 1)
    private, public = (part.split() for part in rest.split("|"))
    tables = {}
    table, column = unit.split(".")
    tables_of_unit = [(c.split(":") + ["t"])[:2] for c in private[0].rstrip(")").split("(")[1].split(",")]
    for written in (*private, *public):
        name, columns = written.rstrip(")").split("(")
        pairs = [(c.split(":") + ["t"])[:2] for c in columns.split(",")]
        found = TableName("public", name)
        types = {**TYPES, "p": TYPES[dict(tables_of_unit)[column]]}
        tables[found] = CatalogTable(found, ("main", name), tuple(CatalogColumn(c, c, types[t]) for c, t in pairs))
    return (TableName("public", table), column), Catalog(tables), [TableName("public", w.split("(")[0]) for w in public]


if __name__ == "__main__":
    print(page(), end="")
