"""Run the statements of a file on a Spark Connect server: `python load_spark.py sc://host:15002 FILE.sql`."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

if __name__ == "__main__":
    session = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    for statement in filter(str.strip, Path(sys.argv[2]).read_text().split(";\n")):
        session.sql(statement)
