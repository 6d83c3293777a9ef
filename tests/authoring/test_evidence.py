"""What `init` and `policy check` say of tables that may be about people, over schemas of twenty trades without any constraint."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpproxy.authoring.checking import Depth, findings
from dpproxy.authoring.draft import Decisions, Frame, draft, led, unit_name
from dpproxy.authoring.evidence import Overlap, evidence
from dpproxy.backends.duckdb_catalog import introspected
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable, ForeignKey
from dpproxy.policy.load import load_file, read_text
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched
from dpproxy.table_terms import TableName

from .worlds import TRADES, trade

VERIFIER = make_verifier("x")
FRAME = Frame("trade", "{ duckdb: trade.duckdb }", "ada", VERIFIER)


@pytest.mark.parametrize("text", TRADES.values(), ids=list(TRADES))
def test_nobody_is_published_unless_the_author_says_so(text: str) -> None:
    unit, catalog, catalogues = trade(text)
    decisions = Decisions(unit, unit_name(unit))
    policy = read_text(draft(catalog, decisions, {}, FRAME), "p.yaml", Path("/data"), {}).policy
    assert not [str(t.name) for t in policy.tables.values() if t.kind.shown]
    decisions = Decisions(unit, unit_name(unit), public=frozenset(catalogues))
    policy = read_text(draft(catalog, decisions, {}, FRAME), "p.yaml", Path("/data"), {}).policy
    assert sorted(t.name for t in policy.tables.values() if t.kind.shown) == sorted(catalogues)


PEOPLE = 50
FIRST, APART = 70_000_000, 7
"""The lowest id of a person, and how far the next one is."""
SOMEBODY = "somebody"
"""A text that rows of people have and those of catalogues have not."""


def cell(table: CatalogTable, column: CatalogColumn, written: str, private: bool) -> str:
    """SQL of a cell of row `i`, by what a trade says of its column."""
    person = f"{FIRST} + {APART} * (i % {PEOPLE})"
    if written == "p":
        return f"CAST({person} AS VARCHAR)" if column.type == "text" else person
    match column.type:
        case "text":
            return f"'{SOMEBODY if private else 'thing'} ' || i"
        case "timestamp":
            return "TIMESTAMP '2024-05-05'"
        case _:
            return "i + 1" if column is table.columns[0] else "i % 7"


def stored(folder: Path, name: str) -> Path:
    """Make the database of a trade, where each table has rows, and those of people hold ids and texts of people."""
    (owner, key), catalog, catalogues = trade(TRADES[name])
    path = folder / f"{name}.duckdb"
    with duckdb.connect(str(path)) as connection:
        for found, table in catalog.tables.items():
            marked = set(re.findall(r"(\w+):p", re.search(rf"\b{found.name}\(([^)]*)\)", TRADES[name])[1]))  # type: ignore[index]
            marked |= {key} if found == owner else set()
            private = found not in catalogues
            cells = (cell(table, c, "p" if c.name in marked else "", private) for c in table.columns)
            chosen = ", ".join(f'{sql} AS "{c.name}"' for c, sql in zip(table.columns, cells, strict=True))
            rows = PEOPLE if private else 9
            connection.execute(f'CREATE TABLE "{found.name}" AS SELECT {chosen} FROM range({rows}) AS t(i)')
    return path


def answered(path: Path, public: set[TableName]) -> Path:
    """The draft of a trade as an author leaves it who confirms every guess and calls `public` public."""
    unit, _, _ = trade(TRADES[path.stem])
    catalog = duckdb_shapes(path)
    text = draft(catalog, Decisions(unit, unit_name(unit), public=frozenset(public)), {}, replace(FRAME, dataset=path.stem))
    policy = path.with_suffix(".yaml")
    policy.write_text(re.sub(r" *# TODO.*|TODO ", "", text.replace("trade.duckdb", path.name)))
    return policy


def duckdb_shapes(path: Path) -> Catalog:
    with duckdb.connect(str(path), read_only=True) as connection:
        return introspected(connection)


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, set[TableName]]:
    """Policies of all trades by an author who calls public whatever neither the schema nor `check --data` doubts, and the tables
    that are so."""
    folder = tmp_path_factory.mktemp("trades")
    policies = {}
    for name in TRADES:
        path = stored(folder, name)
        unit, _, _ = trade(TRADES[name])
        catalog = duckdb_shapes(path)
        private = led(catalog, Decisions(unit, "x")).keys()
        public = {n for n, t in catalog.tables.items() if n not in private and not evidence(catalog, private, unit, t)}
        doubted = {p.what for p in asyncio.run(findings([answered(path, public)], Depth.DATA)) if "public table" in p.what}
        public -= {n for n in public if any(f"public table `{n}`" in what for what in doubted)}
        policies[answered(path, public)] = public
    return policies


def test_evidence_tells_people_from_catalogues(careless: dict[Path, set[TableName]]) -> None:
    """An author who believes every silence publishes nobody, and leaves out few catalogues."""
    things = {(path, name) for path in careless for name in trade(TRADES[path.stem])[2]}
    shown = {(path, name) for path, public in careless.items() for name in public}
    assert [f"{path.stem}.{name}" for path, name in shown - things] == [], "tables of people"
    assert len(things - shown) < 0.3 * len(things), "catalogues"


KNOWN = Path(__file__).parents[1] / "corpus" / "policies"
PEOPLE_TOO = {"employee", "employees", "staff", "actor", "suppliers", "customer_address", "customer_customer_demo"}
"""Tables that the policies of the corpus call public, with names, addresses or ids of people."""
SILENT = {"nafld2", "nafld3", "users_channels-uzooNNtSRO"}
"""Tables of people that no name of a schema without constraints speaks of: `id` of the first two is seen in the data, and the third
has counts of pairs of channels."""


def test_well_known_schemas_without_their_constraints(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPPROXY_CORPUS", str(shared / "corpus" / "db"))
    silent, things, doubted = set(), 0, 0
    for path in sorted(KNOWN.glob("*.yaml")):
        policy = load_file(path).policy
        unit = policy.unit_key
        assert unit is not None
        shapes = duckdb_shapes(shared / "corpus" / "db" / f"{path.stem}.duckdb").tables
        catalog = Catalog({n: replace(t, primary_key=(), unique=(), foreign_keys=()) for n, t in shapes.items()})
        private = led(catalog, Decisions(unit, "x")).keys()
        for name in catalog.tables.keys() & policy.tables.keys():
            seen = name in private or bool(evidence(catalog, private, unit, catalog.tables[name]))
            if not policy.tables[name].kind.shown or name.name in PEOPLE_TOO:
                silent |= set() if seen else {name.name}
            else:
                things, doubted = things + 1, doubted + seen
    assert silent == SILENT
    assert things > 50
    assert doubted < 0.3 * things, "catalogues needlessly left out"


@pytest.mark.long
def test_no_row_of_a_person_is_served(careless: dict[Path, set[TableName]], tmp_path: Path) -> None:
    """Of each table of each trade, served as its author left it, all is asked for."""
    answers = refusals = 0
    with launched(list(careless), tmp_path / "state") as proxy:
        for path, public in careless.items():
            where = f"host={proxy.host} port={proxy.port} user=ada password=x dbname={path.stem}"
            with psycopg.connect(where, autocommit=True) as connection:
                for name in trade(TRADES[path.stem])[1].tables:
                    try:
                        rows = connection.execute(f'SELECT * FROM "{name.name}"').fetchall()
                    except psycopg.Error:
                        assert name not in public, "a catalogue is shown"
                        refusals += 1
                        continue
                    answers += 1
                    said = [str(value) for row in rows for value in row]
                    assert not [text for text in said if SOMEBODY in text or text.startswith(str(FIRST)[:5])], (path, name)
    assert answers
    assert refusals


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


DISGUISED = {
    "blanks": "SELECT ' ' || account_no || ' ' AS who FROM accounts",
    "numbers as text": "SELECT account_no::VARCHAR AS who FROM accounts",
    "digests": "SELECT sha256(account_no::VARCHAR) AS who FROM accounts",
    "digests in capitals": "SELECT upper(md5(account_no::VARCHAR)) AS who FROM accounts",
    "base64": "SELECT base64(encode(account_no::VARCHAR)) AS who FROM accounts",
    "another whole number": "SELECT account_no::HUGEINT::BIGINT AS who FROM accounts",
    "e-mails in JSON": "SELECT to_json({'to': 'p' || account_no || '@example.org'}) AS who FROM accounts",
    "e-mails in a list": "SELECT ['p' || account_no || '@example.org'] AS who FROM accounts",
    "e-mails in a text": "SELECT 'ask p' || account_no || '@example.org, please' AS who FROM accounts",
    "no row yet": "SELECT 1 AS who FROM accounts WHERE false",
}


@pytest.mark.parametrize("name", DISGUISED)
def test_people_in_disguise_are_seen(bank: Path, name: str) -> None:
    """Columns that no name gives away, with ids as somebody else writes them."""
    with duckdb.connect(str(bank / "bank.duckdb")) as connection:
        connection.execute(f"CREATE OR REPLACE TABLE payments AS {DISGUISED[name]}")
    path = bank / "p.yaml"
    path.write_text(POLICY.replace("PUBLIC", "true"))
    codes = {p.code for p in asyncio.run(findings([path], Depth.DATA)) if "`payments`" in p.what}
    assert codes == {"data-public-empty" if name == "no row yet" else "data-public-ids"}


def test_views_of_people_are_seen(bank: Path) -> None:
    """By what their queries read, whatever the columns are called; a view of a view, too."""
    with duckdb.connect(str(bank / "bank.duckdb")) as connection:
        connection.execute(
            "DROP TABLE payments; CREATE VIEW payments AS SELECT city AS place, count(*) AS n FROM accounts GROUP BY 1"
        )
    path = bank / "p.yaml"
    path.write_text(POLICY.replace("PUBLIC", "true"))
    (said,) = [p for p in asyncio.run(findings([path], Depth.SHAPES)) if "`payments`" in p.what]
    assert (said.code, said.what.rpartition(": ")[2]) == ("personal-table", "it is a view of `accounts`, whose rows are people's")


def test_doubts_are_handed_on() -> None:
    """Claims are about people where the policies that they name are, whatever holds between them."""
    unit, catalog, _ = trade(TRADES["insurer"])
    signs = evidence(catalog, led(catalog, Decisions(unit, "x")).keys(), unit, catalog.tables[TableName("public", "claims")])
    assert signs == (
        "`policy_no` is called like the key of `policies`, which may be about people: `holder` is called like an id of people",
    )


def test_ids_of_other_people_are_hidden_in_a_draft() -> None:
    """A ride names its driver as well, whom the rider's protection does not cover."""
    unit, catalog, _ = trade(TRADES["rides"])
    text = draft(catalog, Decisions(unit, "rider"), {}, FRAME)
    assert "      driver_id: hidden  # TODO may name other people" in text
    shown = frozenset({(TableName("public", "trips"), "driver_id")})
    assert "      driver_id: {}" in draft(catalog, Decisions(unit, "rider", shown=shown), {}, FRAME)


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
