"""Django 5: its ORM, paginator, inspectdb; models that it does not manage."""

import io

import django
from django.conf import settings

from checks import EAST_AND_SHORT, answered, close, environment, raises, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
CONNECTION = {"ENGINE": "django.db.backends.postgresql", "NAME": database, "USER": user, "PASSWORD": password}
settings.configure(DATABASES={"default": {**CONNECTION, "HOST": host, "PORT": port}}, USE_TZ=False, INSTALLED_APPS=[])
django.setup()
version(django.__version__)

from django.core.management import call_command  # noqa: E402 - these read the settings
from django.core.paginator import Paginator  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402
from django.db.models.functions import TruncYear  # noqa: E402


class Person(models.Model):
    region = models.TextField()
    height = models.FloatField()
    born = models.DateField()

    class Meta:
        app_label, db_table, managed = "town", "people", False


class Visit(models.Model):
    visit = models.BigIntegerField(primary_key=True)
    person = models.ForeignKey(Person, models.DO_NOTHING, db_column="person", related_name="visits")
    paid = models.DecimalField(max_digits=8, decimal_places=2)

    class Meta:
        app_label, db_table, managed = "town", "visits", False


BY_REGION = Person.objects.values("region").annotate(n=models.Count("id"), h=models.Avg("height")).order_by("region")


def answer():
    answered(BY_REGION.values_list("region", "n", "h"))
    joined = Visit.objects.filter(person__region="east").aggregate(n=models.Count("visit"), paid=models.Sum("paid"))
    assert joined["n"] > 400 and joined["paid"] > 4000, joined


def types():
    years = Person.objects.annotate(year=TruncYear("born")).values("year").annotate(n=models.Count("*")).order_by("year")
    assert years[0]["year"].isoformat() == "1950-01-01", years[0]


def parameters():
    assert close(Person.objects.filter(region="east", height__lt=160).count(), EAST_AND_SHORT)
    assert close(Person.objects.filter(region__in=["east", "west"]).count(), 500)
    assert close(Person.objects.exclude(region="east").count(), 750)


def paging():
    page = Paginator(BY_REGION, 3).page(2)
    assert [row["region"] for row in page.object_list] == ["west"]


def transactions():
    with transaction.atomic():
        assert close(Person.objects.count(), 1000, 3)
        with transaction.atomic():
            assert close(Person.objects.count(), 1000, 3)


def errors():
    raises(lambda: list(Person.objects.filter(region="east")[:1]), "42501", "0A000")
    raises(lambda: Person(region="x", height=1, born="2000-01-01").save(force_insert=True), "42501", "0A000")


def previews():
    people = list(Person.objects.all()[:3])
    assert len(people) == 3 and people[0].region in ("east", "north", "south", "west")
    assert Visit.objects.first().paid >= 0


def catalog():
    told = io.StringIO()
    call_command("inspectdb", stdout=told)
    text = told.getvalue()
    assert "class People(models.Model)" in text and "email" not in text
    assert "models.ForeignKey(People, models.DO_NOTHING, db_column='person'" in text, text
    with connection.cursor() as cursor:
        assert "people" in connection.introspection.table_names(cursor)


run(
    answer=answer, types=types, parameters=parameters, paging=paging, transactions=transactions, errors=errors,
    previews=previews, catalog=catalog,
)  # fmt: skip
