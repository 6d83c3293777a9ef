"""Spark: data frames over JDBC, also read by several tasks at once, and its JDBC catalog, which pushes aggregates down.

Of a data frame Spark reads the rows and counts them itself: these must be refused, not invented.
"""

import os

import pyspark
from pyspark.sql import SparkSession, functions

from checks import ANSWER, EAST_AND_SHORT, answered, close, environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(pyspark.__version__)
URL, CLASS = f"jdbc:postgresql://{host}:{port}/{database}", "org.postgresql.Driver"
CATALOG = "spark.sql.catalog.town"
settings = {
    "spark.jars": os.environ["JDBC_JAR"], "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
    CATALOG: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    f"{CATALOG}.url": URL, f"{CATALOG}.user": user, f"{CATALOG}.password": password, f"{CATALOG}.driver": CLASS,
    f"{CATALOG}.pushDownAggregate": "true",
}  # fmt: skip
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def table(name, **options):
    reader = spark.read.format("jdbc").options(url=URL, dbtable=name, user=user, password=password, driver=CLASS)
    return reader.options(**options).load()


def answer():
    answered(table(f"({ANSWER}) AS q").orderBy("region").collect())
    pushed = spark.table("town.public.people").groupBy("region").agg(functions.count("*"), functions.avg("height"))
    answered(pushed.orderBy("region").collect())


def types():
    assert [row.name for row in table("shops").orderBy("id").collect()] == ["Łódź", "b's", "c"]


def parameters():
    east = spark.sql("SELECT count(*) FROM town.public.people WHERE region = 'east' AND height < 160")
    assert close(east.collect()[0][0], EAST_AND_SHORT)


def paging():
    """Each task reads a part of the groups."""
    groups = "(SELECT shop, count(*) AS n FROM visits GROUP BY shop) AS q"
    found = table(groups, partitionColumn="shop", lowerBound="1", upperBound="4", numPartitions="3").collect()
    assert sorted(row.shop for row in found) == [1, 2, 3], found


def errors():
    for read in (lambda: table("people").groupBy("region").count(), lambda: table("people").filter("id = 5")):
        try:
            read().collect()
        except Exception as error:
            assert "rows of single persons" in str(error), str(error)[:1000]
        else:
            raise AssertionError("no error")


def catalog():
    assert {row.tableName for row in spark.sql("SHOW TABLES IN town.public").collect()} >= {"people", "shops", "visits"}
    assert spark.table("town.public.people").columns == ["id", "region", "born", "income", "height", "member", "joined"]


run(answer=answer, types=types, parameters=parameters, paging=paging, errors=errors, catalog=catalog)
