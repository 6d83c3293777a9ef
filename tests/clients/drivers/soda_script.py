"""Soda: a scan of checks on tables, as its command line runs it."""

from importlib.metadata import version as version_of

from soda.scan import Scan

from checks import environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(version_of("soda-core"))
SOURCE = f"""
data_source town:
  type: postgres
  host: {host}
  port: '{port}'
  username: {user}
  password: {password}
  database: {database}
  schema: public
"""


def scanned(checks):
    """What became of each check, and what was logged as an error."""
    scan = Scan()
    scan.set_data_source_name("town")
    scan.add_configuration_yaml_str(SOURCE)
    scan.add_sodacl_yaml_str(checks)
    scan.execute()
    return [check["outcome"] for check in scan.get_scan_results()["checks"]], scan.get_error_logs_text() or ""


def answer():
    checks = """
checks for people:
  - row_count between 900 and 1100
  - avg(height) between 170 and 180
  - min(height) >= 100
  - max(height) <= 250
  - stddev(height) < 30
  - missing_count(region) < 10
checks for visits:
  - row_count > 1500
"""
    outcomes, errors = scanned(checks)
    assert outcomes == ["pass"] * 7, (outcomes, errors)


def parameters():
    checks = """
checks for people:
  - row_count between 200 and 300:
      filter: region = 'east'
  - invalid_count(region) < 10:
      valid values: [east, north, south, west]
"""
    outcomes, errors = scanned(checks)
    assert outcomes == ["pass"] * 2, (outcomes, errors)


def errors():
    """Rows that fail a check are rows of people: the check itself is told, its samples are not."""
    _, said = scanned("checks for people:\n  - failed rows:\n      fail query: SELECT * FROM people WHERE height > 1")
    assert "rows of single persons" in said, said


def catalog():
    checks = """
checks for people:
  - schema:
      fail:
        when required column missing: [id, region, height]
        when forbidden column present: [email]
"""
    outcomes, errors = scanned(checks)
    assert outcomes == ["pass"], (outcomes, errors)


run(answer=answer, parameters=parameters, errors=errors, catalog=catalog)
