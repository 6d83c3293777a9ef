"""Names that say something of a column, and names that say nothing."""

from __future__ import annotations

import pytest

from dpproxy.review.hints import free_text, key_like, of_people, personal


@pytest.mark.parametrize(
    "name", ["id", "customer_id", "CustomerID", "order_key", "c_customer_sk", "zip_code", "ticket_number", "userid"]
)
def test_identifiers(name: str) -> None:
    assert key_like(name)


@pytest.mark.parametrize(
    "name", ["email", "e_mail", "contact_email", "first_name", "surname", "phone", "address", "postal_code", "dob"]
)
def test_what_finds_a_person(name: str) -> None:
    assert personal(name)


@pytest.mark.parametrize("name", ["name", "value", "amount", "region", "age", "title", "company", "paid", "emailed"])
def test_names_that_say_nothing(name: str) -> None:
    assert not personal(name)
    assert not free_text(name)
    assert not of_people(name)


def test_numbers_are_no_identifiers() -> None:
    assert not any(map(key_like, ["amount", "age", "income", "width", "hours_per_week"]))


def test_free_text_and_people() -> None:
    assert free_text("l_comment")
    assert of_people("customers")
    assert of_people("hospital_patient")
