"""Great Expectations: expectations on a table of a PostgreSQL data source."""

import great_expectations as gx
import great_expectations.expectations as gxe

from checks import environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(gx.__version__)
context = gx.get_context(mode="ephemeral")
context.variables.progress_bars = {"globally": False}
address = f"postgresql+psycopg2://{user}:{password.replace(' ', '%20')}@{host}:{port}/{database}"
town = context.data_sources.add_postgres("town", connection_string=address)
people = town.add_table_asset("people", table_name="people", schema_name="public")
batch = people.add_batch_definition_whole_table("all").get_batch()


def told(expectation):
    result = batch.validate(expectation, result_format="BOOLEAN_ONLY")
    return result.success, str(result.exception_info)


def holds(expectation):
    success, why = told(expectation)
    assert success, why


def answer():
    holds(gxe.ExpectTableRowCountToBeBetween(min_value=900, max_value=1100))
    holds(gxe.ExpectColumnMeanToBeBetween(column="height", min_value=170, max_value=180))
    holds(gxe.ExpectColumnSumToBeBetween(column="height", min_value=170_000, max_value=180_000))
    holds(gxe.ExpectColumnStdevToBeBetween(column="height", min_value=10, max_value=20))


def parameters():
    holds(gxe.ExpectColumnMinToBeBetween(column="height", min_value=100, max_value=160))
    holds(gxe.ExpectColumnMaxToBeBetween(column="height", min_value=190, max_value=250))


def errors():
    """An expectation that asks for single values is not met, and says why: its median is read off the rows in the middle."""
    success, why = told(gxe.ExpectColumnMedianToBeBetween(column="height", min_value=170, max_value=180))
    assert not success and "rows of single persons" in why, why


def previews():
    assert "region" in str(batch.head(n_rows=5))


def catalog():
    holds(gxe.ExpectColumnToExist(column="region"))
    holds(gxe.ExpectTableColumnCountToEqual(value=7))
    assert not told(gxe.ExpectColumnToExist(column="email"))[0]


run(answer=answer, parameters=parameters, errors=errors, previews=previews, catalog=catalog)
