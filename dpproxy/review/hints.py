"""What a name says of a column: an identifier, a person's name, free text, a date of birth.

Knows: words that people use in schemas. Must not know: data, policies. A hint never decides anything: drafts mark it as a
decision their reader owes, and a check warns of it. A name that says nothing (`value`, `name` of a product) gives no hint.
"""

from __future__ import annotations

import re

_KEY = re.compile(r"(?:^|_)(?:id|ids|key|sk|uuid|guid|code|no|nr|num|number|hash|token)$|(?<=[a-z])(?:Id|ID|Key|key)$|id$")
_PERSON = re.compile(
    r"(?:^|_)(?:e_?mail|mail|phone|telephone|mobile|fax|ssn|social_security|passport|iban|license_no|"
    r"first_?name|last_?name|sur_?name|given_?name|family_?name|full_?name|real_?name|contact_?name|(?:user|member|customer|client|patient|student|employee|person|player|guest|driver|author|owner)_?name|maiden_?name|login|"
    r"address|address_?line_?\d|address\d|street|street_?(?:name|number)|suite_?number|postal_?code|post_?code|zip|zip_?code|"
    r"birth_?date|date_?of_?birth|dob|ip|ip_?address|password|"
    r"telefon(?:nummer)?|handy(?:nummer)?|stra(?:ss|ß)e|anschrift|adresse|vorname|nachname|familienname|geburts(?:datum|tag)|"
    r"f(?:ue|ü)hrerschein|unterschrift|ausweis(?:_?nr|_?nummer)?|pr[ée]nom|nom_?de_?famille|courriel|t[ée]l[ée]phone|"
    r"(?:date_?(?:de_?)?)?naissance|tel[ée]fono|apellidos?|correo|direcci[óo]n|(?:fecha_?(?:de_?)?)?nacimiento|dni|cognome|indirizzo|"
    r"codice_?fiscale|endere[çc]o|sobrenome|cpf)(?:_|$|\d)",
    re.IGNORECASE,
)
_DIRECT = re.compile(
    r"(?:^|_)(?:e_?mail|phone|telephone|mobile|ssn|social_security|passport|iban|first_?name|last_?name|sur_?name|full_?name|"
    r"user_?name|login|password|telefon|vorname|nachname|courriel|correo|apellidos?)(?:_|$|\d)",
    re.IGNORECASE,
)
_NAMES_PEOPLE = re.compile(
    r"(?:^|_)(?:customer|cust|client|person|patient|member|mem|user|student|respondent|subscriber|account|visitor|p|"
    r"kunden?|mitglieds?|benutzer|nutzer|patienten|sch(?:ue|ü)ler|mitarbeiter|personen|utilisateur|[ée]l[èe]ve|salari[ée]|usuario|"
    r"paciente|alumno|empleado)_?(?:id|key|sk|no|nr|nummer|num)s?$",
    re.IGNORECASE,
)
_FREE = re.compile(r"(?:^|_)(?:text|note|notes|comment|comments|remark|remarks|description|body|message|details|memo|bio)$", re.I)
_PEOPLE = re.compile(
    r"(?:^|_)(?:customer|client|person|people|patient|member|user|student|respondent|employee|staff|subscriber|voter|account|visitor|"
    r"kunden?|mitglied(?:er)?|benutzer|nutzer|patienten|sch(?:ue|ü)ler|eltern|lehrkr(?:ae|ä)fte|lehrer|mitarbeiter|personen|fahrer|"
    r"einwohner|utilisateur|[ée]l[èe]ve|salari[ée]|adh[ée]rent|abonn[ée]|employ[ée]|cliente|usuario|paciente|empleado|alumno|utenti|"
    r"clienti|pazienti|dipendenti)s?$",
    re.IGNORECASE,
)


_TENANT = re.compile(
    r"(?:^|_)(?:tenant|org|organi[sz]ation|company|realm|workspace|domain|site|school|hospital|clinic|practice|store|shop|branch|"
    r"client_system|region|country)(?:_?(?:id|key|no|code|nr))?$",
    re.IGNORECASE,
)
_DOCUMENT = re.compile(r"(?:^|_)(?:order|ticket|invoice|receipt|booking|bill)_?(?:id|no|nr|num|number|key|sk)$", re.IGNORECASE)
_UNDONE = re.compile(r"(?:^|_)(?:returns?|refunds?|cancell?ations?|reversals?|credit_?notes?)(?:_|$)", re.IGNORECASE)


def key_like(name: str) -> bool:
    """Return whether a column's name is that of an identifier: it is grouped by and joined on, and never added up."""
    return _KEY.search(name) is not None


def finds(name: str) -> bool:
    """Return whether a column's name is that of something which finds one person alone, or tells of one in free words. An address
    or a day of birth may be common to many."""
    return not name.lower().startswith(("is_", "has_")) and (_DIRECT.search(name) is not None or free_text(name))


def personal(name: str) -> bool:
    """Return whether a column's name is that of something which names, or finds, one person."""
    return _PERSON.search(name) is not None


def free_text(name: str) -> bool:
    return _FREE.search(name) is not None


def of_people(name: str) -> bool:
    """Return whether a table's name is that of people."""
    return _PEOPLE.search(name) is not None


def names_people(name: str) -> bool:
    """Return whether a column's name is that of an identifier of people, in whichever table it is."""
    return _NAMES_PEOPLE.search(name) is not None


def tenant(name: str) -> bool:
    """Return whether a column's name is that of a customer of a whole system, within whom people are numbered."""
    return _TENANT.search(name) is not None


def of_document(name: str) -> bool:
    """Return whether a column's name is that of a document's number: an order's, a ticket's, an invoice's."""
    return _DOCUMENT.search(name) is not None


def undoes(name: str) -> bool:
    """Return whether a table's name is that of what takes something back: returns, refunds, cancellations."""
    return _UNDONE.search(name) is not None
