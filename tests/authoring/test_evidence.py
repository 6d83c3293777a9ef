"""What `init` and `policy check` say of tables that may be about people, over schemas of twenty trades without any constraint."""

from __future__ import annotations

import asyncio
from pathlib import Path

import duckdb
import pytest

from dpproxy.authoring.checking import Depth, findings
from dpproxy.authoring.draft import Decisions, Frame, draft, led, unit_name
from dpproxy.authoring.evidence import Overlap, evidence
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.load import load_file, read_text
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName

VERIFIER = make_verifier("x")
FRAME = Frame("trade", "{ duckdb: trade.duckdb }", "ada", VERIFIER)
TYPES = {"i": "int4", "t": "text", "n": "numeric", "d": "timestamp"}

# A trade: the unit, then tables as `name(columns)`; those after `|` are catalogues, about nobody. A column is text unless it ends
# in `:i`, `:n`, `:d`.
TRADES = {
    "blog": "users.id users(id:i,login,joined:d) posts(id:i,author_id:i,title,at:d) comments(id:i,post_id:i,commenter:i,body) "
    "follows(follower:i,followed:i) | tags(id:i,label) languages(code,label)",
    "bank": "accounts.account_no accounts(account_no:i,opened:d,branch:i) payments(id:i,payer:i,payee:i,amount:n) "
    "cards(pan,account_no:i) logins(account:i,at:d) | branches(branch:i,city) currencies(iso,digits:i)",
    "clinic": "patients.id patients(id:i,sex,born:d) labs(id:i,code,result:n) visits(visit:i,patient:i,ward:i) "
    "next_of_kin(patient:i,name,phone) | wards(ward:i,floor:i) lab_codes(code,unit)",
    "school": "students.student_id students(student_id:i,year:i) marks(student_id:i,course:i,mark:n) "
    "parents(parent_id:i,student:i,email) teachers(id:i,name,wage:n) | courses(course:i,title) rooms(room,seats:i)",
    "shop": "customers.customer_id customers(customer_id:i,city) orders(order_id:i,customer_id:i,at:d) "
    "order_notes(order_id:i,body) reviews(id:i,reviewer:i,stars:i) | products(product_id:i,title,price:n) categories(id:i,label)",
    "chat": "members.member_id members(member_id:i,joined:d) messages(id:i,sender:i,receiver:i,body) "
    "blocks(blocker:i,blocked:i) | channels(channel:i,topic) emojis(code,label)",
    "logistics": "clients.client_id clients(client_id:i,city) parcels(parcel:i,client_id:i,weight:n) scans(parcel:i,depot:i,at:d) "
    "drivers(driver_id:i,name) | depots(depot:i,city) tariffs(zone:i,price:n)",
    "gym": "members.id members(id:i,born:d) checkins(member:i,at:d) trainers(id:i,name,wage:n) "
    "| plans(plan:i,price:n) machines(machine:i,label)",
    "hotel": "guests.guest_id guests(guest_id:i,country) stays(stay:i,guest_id:i,room:i) complaints(stay:i,body) "
    "| rooms(room:i,beds:i) seasons(season,factor:n)",
    "library": "readers.card_no readers(card_no:i,born:d) loans(card_no:i,item:i,due:d) fines(card:i,amount:n) "
    "| items(item:i,title) shelves(shelf,floor:i)",
    "telecom": "subscribers.msisdn subscribers(msisdn,plan:i) calls(caller,callee,seconds:i) sms(msisdn,at:d) "
    "| plans(plan:i,price:n) cells(cell:i,lat:n,lon:n)",
    "insurer": "persons.person_id persons(person_id:i,born:d) policies(policy_no:i,holder:i) claims(claim:i,policy_no:i,paid:n) "
    "| tariffs(tariff:i,rate:n) perils(peril,label)",
    "rides": "riders.rider_id riders(rider_id:i,city) trips(trip:i,rider_id:i,driver_id:i,fare:n) "
    "drivers(driver_id:i,license_no) | zones(zone:i,label) vehicle_types(code,seats:i)",
    "staff": "employees.emp_no employees(emp_no:i,hired:d) salaries(emp_no:i,salary:n) managers(emp_no:i,dept:i) "
    "absences(employee:i,day:d) | departments(dept:i,label) grades(grade:i,least:n)",
    "charity": "donors.donor_id donors(donor_id:i,city) gifts(donor_id:i,amount:n) letters(donor:i,body) "
    "| campaigns(campaign:i,title) funds(fund:i,label)",
    "dating": "users.user_id users(user_id:i,born:d) likes(liker:i,liked:i) photos(user_id:i,url) "
    "| interests(interest:i,label) cities(city:i,label)",
    "paper": "subscribers.subscriber_id subscribers(subscriber_id:i,city) reads(subscriber_id:i,article:i) letters(writer,body) "
    "| articles(article:i,title) sections(section,label)",
    "energy": "customers.customer_no customers(customer_no:i,zip) meters(meter:i,customer_no:i) readings(meter:i,at:d,kwh:n) "
    "| tariffs(tariff:i,price:n) substations(station:i,volts:i)",
    "airline": "passengers.passenger_id passengers(passenger_id:i,country) bookings(booking:i,passenger_id:i,flight:i) "
    "meals(booking:i,meal) crew(crew_id:i,name,phone) | flights(flight:i,origin,target) aircraft(tail,seats:i)",
    "games": "players.playerid players(playerid:i,country) matches(match:i,winner:i,loser:i) purchases(playerid:i,amount:n) "
    "salaries(playerid:i,year:i,salary:n) | maps(map:i,label) weapons(weapon:i,damage:n)",
}


def trade(text: str) -> tuple[tuple[TableName, str], Catalog, list[TableName]]:
    """The unit, the schema, its catalogues."""
    unit, rest = text.split(" ", 1)
    private, public = (part.split() for part in rest.split("|"))
    tables = {}
    for written in (*private, *public):
        name, columns = written.rstrip(")").split("(")
        pairs = [(c.split(":") + ["t"])[:2] for c in columns.split(",")]
        found = TableName("public", name)
        tables[found] = CatalogTable(found, ("main", name), tuple(CatalogColumn(c, c, TYPES[t]) for c, t in pairs))
    table, column = unit.split(".")
    return (TableName("public", table), column), Catalog(tables), [TableName("public", w.split("(")[0]) for w in public]


@pytest.mark.parametrize("text", TRADES.values(), ids=list(TRADES))
def test_nobody_is_published_unless_the_author_says_so(text: str) -> None:
    unit, catalog, catalogues = trade(text)
    decisions = Decisions(unit, unit_name(unit))
    policy = read_text(draft(catalog, decisions, {}, FRAME), "p.yaml", Path("/data"), {}).policy
    assert not [str(t.name) for t in policy.tables.values() if t.kind.shown]
    decisions = Decisions(unit, unit_name(unit), public=frozenset(catalogues))
    policy = read_text(draft(catalog, decisions, {}, FRAME), "p.yaml", Path("/data"), {}).policy
    assert sorted(t.name for t in policy.tables.values() if t.kind.shown) == sorted(catalogues)


def test_evidence_tells_people_from_catalogues() -> None:
    """Most tables of people without a path are doubted for a reason; few catalogues are."""
    doubted: dict[bool, list[bool]] = {True: [], False: []}
    for text in TRADES.values():
        unit, catalog, catalogues = trade(text)
        private = led(catalog, Decisions(unit, unit_name(unit))).keys()
        for name, table in catalog.tables.items():
            if name not in private:
                doubted[name in catalogues].append(bool(evidence(catalog, private, unit, table)))
    assert sum(doubted[True]) < 0.3 * len(doubted[True]), "catalogues"
    assert sum(doubted[False]) > 0.5 * len(doubted[False]), "tables of people"


def test_a_foreign_key_to_a_private_table_is_evidence() -> None:
    unit, catalog, _ = trade("users.id users(id:i) notes(n:i,who:i) | tags(id:i)")
    users, notes = TableName("public", "users"), TableName("public", "notes")
    keyed = CatalogTable(
        notes, ("main", "notes"), catalog.tables[notes].columns, foreign_keys=(ForeignKey(("who",), users, ("id",)),)
    )
    assert evidence(catalog, {users}, unit, keyed) == ("`who` refers to `users`, whose rows are people's",)


@pytest.mark.parametrize(
    ("counts", "numbers", "named", "holds"),
    [
        ((50, 50, 10_000, 9_999), True, False, False),  # the numbers of a catalogue
        ((50, 50, 10_000, 9_999), True, True, True),  # called like ids
        ((5_000, 5_000, 10_000, 9_999), True, False, True),  # half of the people
        ((50, 50, 10_000, 10**9), True, False, True),  # no chance: ids with gaps
        ((50, 50, 10_000, 0), False, False, True),  # texts
        ((50, 10, 10_000, 0), False, False, False),
        ((0, 0, 10_000, 0), False, True, False),
    ],
)
def test_when_values_are_ids(counts: tuple[int, ...], numbers: bool, named: bool, holds: bool) -> None:
    place = (TableName("public", "t"), "c")
    assert Overlap(place, place, (), numbers, named).holds_ids(counts) is holds


POLICY = f"""
version: 1
dataset: bank
backend: {{ duckdb: bank.duckdb }}
privacy_unit: {{ name: account, key: accounts.account_no }}
budget: {{ epsilon: 10, delta: 1e-9, every: month }}
tables:
  accounts:
    unit: account_no
    columns: {{ account_no: unit, city: {{}} }}
  payments: {{ public: PUBLIC }}
  branches: {{ public: true }}
roles:
  analyst: {{ budget: {{ epsilon: 1, every: month }}, query: {{ epsilon: 0.1, max_epsilon: 1 }} }}
users:
  ada: {{ role: analyst, password: "{VERIFIER}" }}
"""


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "bank.duckdb")) as connection:
        connection.execute("CREATE TABLE accounts AS SELECT 7 * i AS account_no, 'x' AS city FROM range(1000) AS t(i)")
        connection.execute(
            "CREATE TABLE payments AS SELECT i AS n, 7 * (i % 900) AS payer, 5.0 AS amount FROM range(3000) AS t(i)"
        )
        connection.execute("CREATE TABLE branches AS SELECT i AS branch, 'x' AS city FROM range(40) AS t(i)")
    return tmp_path


@pytest.mark.parametrize(
    ("public", "codes"), [("true", {("data-public-ids", "payments")}), ('{ reviewed: "2026-11-28 by Ada" }', set())]
)
def test_a_public_table_with_ids_of_people_is_an_error(bank: Path, public: str, codes: set[tuple[str, str]]) -> None:
    path = bank / "p.yaml"
    path.write_text(POLICY.replace("PUBLIC", public))
    found = asyncio.run(findings([path], Depth.DATA))
    said = {(p.code, "payments") for p in found if "`payments`" in p.what and "payer" in p.what}
    assert said - {("personal-table", "payments")} == codes
    assert not [p for p in found if "`branches`" in p.what], "forty numbers are no people"


def test_a_public_table_called_like_one_of_people_is_warned_of(bank: Path) -> None:
    """By the schema alone: values that are no ids tell nothing."""
    with duckdb.connect(str(bank / "bank.duckdb")) as connection:
        connection.execute("CREATE TABLE letters AS SELECT 'Ann' AS writer, 'Dear all' AS topic")
    path = bank / "p.yaml"
    path.write_text(POLICY.replace("PUBLIC", "true").replace("  branches:", "  letters: { public: true }\n  branches:"))
    (said,) = [p for p in asyncio.run(findings([path], Depth.SHAPES)) if "`letters`" in p.what]
    assert (said.code, said.what.rpartition(": ")[2]) == ("personal-table", "`writer` is called like an id of people")


ABROAD = """
CREATE TABLE pupils AS SELECT md5('p' || i)::UUID AS pupil_uuid, '5a' AS klasse FROM range(40) AS t(i);
CREATE TABLE eltern AS SELECT pupil_uuid AS kind, 'x' AS ort FROM pupils;
CREATE TABLE fahrten AS SELECT i AS nr, 'B1' AS fuehrerschein FROM range(9) AS t(i);
CREATE TABLE lehrkraefte AS SELECT 'MUE' AS kuerzel, 4000 AS gehalt;
CREATE TABLE notes_fr AS SELECT 'x' AS auteur, 3 AS points;
CREATE TABLE faecher AS SELECT 'ma' AS fach, 4 AS stunden;
"""


def test_ids_of_any_type_and_names_in_other_languages(tmp_path: Path) -> None:
    """UUIDs are compared as numbers are; German, French, Spanish and Italian names tell of people. A catalogue stays one."""
    with duckdb.connect(str(tmp_path / "bank.duckdb")) as connection:
        connection.execute(ABROAD)
    catalogue = ("eltern", "fahrten", "lehrkraefte", "notes_fr", "faecher")
    unit = "  pupils: { unit: pupil_uuid, unique: true, columns: { pupil_uuid: unit } }\n"
    tables = unit + "".join(f"  {name}: {{ public: true }}\n" for name in catalogue)
    head, _, rest = POLICY.partition("tables:\n")
    path = tmp_path / "p.yaml"
    path.write_text(
        head.replace("accounts.account_no", "pupils.pupil_uuid") + "tables:\n" + tables + rest[rest.index("roles:") :]
    )
    found = asyncio.run(findings([path], Depth.DATA))
    said = {name: {p.code for p in found if f"`{name}`" in p.what} for name in catalogue}
    assert "data-public-ids" in said["eltern"]
    assert [name for name in catalogue if not said[name]] == ["faecher"]


def test_texts_about_things_are_no_evidence() -> None:
    """Of 50 catalogues of well-known schemas (TPC-H, Sakila, Northwind, ...) a fifth was doubted for descriptions of things alone."""
    unit, catalog, _ = trade(
        "users.id users(id:i) regions(n:i,region_description,r_comment,address_id:i) memos(n:i,memo) | t(id:i)"
    )
    regions, memos = (catalog.tables[TableName("public", name)] for name in ("regions", "memos"))
    assert evidence(catalog, {unit[0]}, unit, regions) == ()
    assert evidence(catalog, {unit[0]}, unit, memos) == ("`memo` is called like free text",)


@pytest.mark.parametrize(
    ("name", "key", "called"),
    [("fines", "card_no", "card"), ("fines", "member_id", "members")],
)
def test_a_key_is_known_without_its_ending(name: str, key: str, called: str) -> None:
    unit, catalog, _ = trade(f"people.{key} people({key}:i) {name}(x:n,{called}:i) | t(id:i)")
    table = catalog.tables[TableName("public", name)]
    assert evidence(catalog, {unit[0]}, unit, table) == (f"`{called}` is called like a key of people's rows",)


@pytest.mark.parametrize(
    ("value", "code"), [('{ reviewed: "" }', "wrong-type"), ("{ seen: x }", "unknown-key"), ("maybe", "wrong-type")]
)
def test_reviews_that_are_none(value: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.replace("PUBLIC", value))
    assert code in {p.code for p in asyncio.run(findings([path], Depth.FILE))}


def test_open_decisions_have_a_place(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(POLICY.replace("PUBLIC", "true").replace("account_no\n", "account_no  # TODO are they people?\n"))
    (said,) = [w for w in load_file(path).warnings if w.code == "open-decision"]
    assert (said.line, said.column, said.what) == (9, 23, "an open decision: are they people?")
