"""Entries as text: each comes back as it was, the chain of hashes is SHA-256 of what it says, and what is unknown is refused."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.ledger.entries import (
    NO_HASH,
    Checkpoint,
    ClockWord,
    ClockWrong,
    Entry,
    Exhausted,
    Head,
    Migrated,
    Named,
    Opened,
    check_seal,
    decode,
    encode,
    row_of,
    seal,
)
from dpproxy.ledger.ledger import Charge, Grant, LedgerCorrupt, LedgerError
from dpproxy.privacy.loss import ZERO, Loss

AT = dt.datetime(2024, 2, 29, 23, 59, 59, 1, tzinfo=dt.UTC)
KEY = b"k" * 32
CHARGE = Charge("id", 7, "shop", "analyst", "ada", Loss(5, 3), Loss(2), "hash", AT)
ENTRIES: list[Entry] = [
    Opened("name"),
    Migrated(),
    Checkpoint({"a": [1, None]}),
    CHARGE,
    replace(CHARGE, dataset_loss=CHARGE.loss),
    replace(CHARGE, dataset_loss=ZERO),
    replace(CHARGE, loss=ZERO, dataset_loss=ZERO),
    replace(CHARGE, policy="digest", dataset_loss=CHARGE.loss),
    replace(CHARGE, role='a "b" \\ c', user="ü\n\x7f", dataset="'", policy="\t"),
    replace(CHARGE, role=',"loss":{', user='{"loss":{}', statement='"x","loss":{"epsilon":0}'),
    Grant("shop", "role", "analyst", 5, 6, "why", AT),
    ClockWord(AT, "right"),
    ClockWrong(AT, "wrong"),
    Named(AT, "shop", "store", "digest", "moved"),
    Exhausted(AT, "lost"),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_comes_back(entry: Entry) -> None:
    body = encode(entry, 7)
    assert decode(body) == (7, entry)
    assert "\n" not in body
    assert encode(entry, 7) == json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))


def test_times_are_told_in_utc() -> None:
    elsewhere = AT.astimezone(dt.timezone(dt.timedelta(hours=9)))
    assert encode(ClockWord(elsewhere, ""), 1) == encode(ClockWord(AT, ""), 1)


def test_the_chain_by_its_definition() -> None:
    """Each hash is SHA-256 of the one before and the text: any change of any entry changes the last one."""
    rows, digest = [], NO_HASH
    for number, entry in enumerate(ENTRIES, 1):
        rows.append(row_of(entry, number, digest))
        digest = rows[-1].hash
    again = bytes(32)
    for row in rows:
        again = hashlib.sha256(again + row.body.encode()).digest()
    assert again == digest
    assert [row.id for row in rows if row.id] == ["checkpoint 3", *["id"] * 7]


def test_seals() -> None:
    digest = hashlib.sha256(b"x").digest()
    made = seal(KEY, "shop", 3, digest)
    assert made == hmac.new(KEY, b"shop\x003\x00" + digest, "sha256").digest()
    check_seal(KEY, "shop", Head(3, digest, made))
    check_seal(None, "shop", Head(3, digest, None))
    check_seal(KEY, "shop", Head())
    for key, chain, head in [
        (KEY, "shop", Head(4, digest, made)),
        (KEY, "other", Head(3, digest, made)),
        (KEY, "shop", Head(3, bytes(32), made)),
        (KEY, "shop", Head(3, digest, None)),
        (b"l" * 32, "shop", Head(3, digest, made)),
    ]:
        with pytest.raises(LedgerCorrupt, match="seal"):
            check_seal(key, chain, head)
    with pytest.raises(LedgerError, match="sealed"):
        check_seal(None, "shop", Head(3, digest, made))


@pytest.mark.parametrize("change", [{"kind": "gift"}, {"at": "2024-01-01T00:00:00"}, {"loss": {}}, {"sequence": "x"}])
def test_what_encode_does_not_write_is_refused(change: dict[str, object]) -> None:
    data = json.loads(encode(CHARGE, 7)) | change
    for body in (json.dumps(data), json.dumps(data, sort_keys=True, separators=(",", ":"))):
        with pytest.raises(LedgerCorrupt, match="cannot be read"):
            decode(body)


texts = st.one_of(st.text(max_size=8), st.sampled_from(['"', "\\", "{}", '","user":"', ',"loss":{', "", "}", "\x00"]))


@given(texts, texts, texts, texts, st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_charge_is_read_as_any_json_is(dataset: str, role: str, user: str, policy: str, whole: bool) -> None:
    """`encode` and `decode` know the text of charges by heart: it is what `json` writes and reads."""
    charge = Charge("id", 7, dataset, role, user, Loss(5, 3), Loss(5, 3) if whole else Loss(2), "hash", AT, policy)
    body = encode(charge, 7)
    data = json.loads(body)
    assert body == json.dumps(data, sort_keys=True, separators=(",", ":"))
    assert (data["dataset"], data["role"], data["user"], data.get("policy", "")) == (dataset, role, user, policy)
    assert decode(body) == decode(json.dumps(data)) == (7, charge)


@pytest.mark.parametrize("letter", '"\\{},:0 a\n')
def test_what_is_not_json_is_refused(letter: str) -> None:
    """Whatever letter of the text is another: nothing is read from it that `json` does not read."""
    body = encode(replace(CHARGE, policy="digest"), 7)
    for place in range(len(body)):
        changed = body[:place] + letter + body[place + 1 :]
        try:
            sequence, entry = decode(changed)
        except LedgerError:
            continue
        data = json.loads(changed)
        assert isinstance(entry, Charge)
        assert (sequence, entry.role, entry.user, entry.id) == (data["sequence"], data["role"], data["user"], data["id"])
        assert entry.loss == Loss.from_json(data["loss"])


@pytest.mark.parametrize("change", [{"schema": 99}, {"schema": 0}, {"orders": [2.0]}, {"reserves": []}])
def test_another_version_is_told_apart(change: dict[str, object]) -> None:
    body = json.dumps(json.loads(encode(Opened("name"), 1)) | change)
    with pytest.raises(LedgerError, match="another version"):
        decode(body)
