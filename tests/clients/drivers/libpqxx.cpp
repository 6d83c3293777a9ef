// libpqxx: queries, parameters, prepared statements, cursors, streams of COPY, errors as classes.
#include <cmath>
#include <functional>
#include <iostream>
#include <pqxx/pqxx>
#include <string>

static bool failed = false;

static std::string quoted(const std::string &text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return "\"" + out + "\"";
}

static void check(const std::string &name, const std::function<void()> &action) {
  try {
    action();
    std::cout << "{\"check\": \"" << name << "\", \"ok\": true}" << std::endl;
  } catch (const std::exception &error) {
    failed = true;
    std::cout << "{\"check\": \"" << name << "\", \"ok\": false, \"why\": " << quoted(error.what()) << "}" << std::endl;
  }
}

static void that(bool holds, const std::string &what) {
  if (!holds) throw std::runtime_error(what);
}

static bool close(double one, double other) { return std::fabs(one - other) <= 1.5; }

template <typename Error> static void raises(pqxx::connection &town, const std::string &sql) {
  pqxx::nontransaction work(town);
  try {
    work.exec(sql);
  } catch (const Error &) {
    return;
  }
  throw std::runtime_error("no error, or another one: " + sql);
}

int main() {
  std::cout << "{\"version\": \"" << PQXX_VERSION << "\"}" << std::endl;
  pqxx::connection town("");
  const std::string by_region = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region";
  check("answer", [&] {
    pqxx::work work(town);
    pqxx::result rows = work.exec(by_region);
    that(rows.size() == 4 && rows[0]["region"].as<std::string>() == "east", "regions");
    that(close(rows[0]["n"].as<double>(), 250) && close(rows[1]["h"].as<double>(), 175), "numbers");
  });
  check("parameters", [&] {
    pqxx::work work(town);
    const std::string sql = "SELECT count(*) FROM people WHERE region = $1 AND height < $2";
    that(close(work.exec_params1(sql, "east", 160)[0].as<double>(), 50), "parameters");
  });
  check("prepared", [&] {
    town.prepare("of_region", "SELECT count(*) FROM people WHERE region = $1");
    pqxx::work work(town);
    that(close(work.exec_prepared1("of_region", "west")[0].as<double>(), 250), "west");
    that(close(work.exec_prepared1("of_region", "east")[0].as<double>(), 250), "east");
  });
  check("paging", [&] {
    pqxx::work work(town);
    pqxx::icursorstream pages(work, by_region, "pages", 3);
    pqxx::result page;
    pages >> page;
    that(page.size() == 3, "first page");
    pages >> page;
    that(page.size() == 1, "second page");
  });
  check("transactions", [&] {
    pqxx::work work(town);
    pqxx::subtransaction inner(work);
    that(close(inner.exec1("SELECT count(*) FROM people")[0].as<double>(), 1000), "count");
    inner.commit();
    work.commit();
  });
  check("errors", [&] {
    raises<pqxx::undefined_column>(town, "SELECT email FROM people");
    raises<pqxx::sql_error>(town, "SELECT * FROM people WHERE id = 5");
    raises<pqxx::insufficient_privilege>(town, "INSERT INTO shops (id) VALUES (9)");
  });
  check("previews", [&] {
    pqxx::work work(town);
    that(work.exec("SELECT * FROM people LIMIT 3").size() == 3, "rows");
  });
  check("catalog", [&] {
    pqxx::work work(town);
    pqxx::result rows = work.exec("SELECT p.height, q.name FROM (SELECT avg(height) AS height FROM people) p, shops q");
    that(rows.column_type(0u) == 701 && rows.column_table("name") != pqxx::oid_none, "types and tables of columns");
  });
  check("copy", [&] {
    pqxx::work work(town);
    pqxx::stream_from shops(work, "shops", std::vector<std::string>{"id", "name"});
    std::string line;
    int rows = 0;
    while (shops.get_raw_line(line)) rows++;
    shops.complete();
    that(rows == 3 && line == "", "rows");
  });
  check("cancel", [&] {
    pqxx::connection other("");
    pqxx::nontransaction work(other);
    that(!work.exec1("SELECT pg_cancel_backend(1)")[0].as<bool>(), "nobody");
    that(work.exec1("SELECT pg_terminate_backend(" + std::to_string(town.backendpid()) + ")")[0].as<bool>(), "terminated");
    try {
      pqxx::nontransaction(town).exec("SELECT 1");
    } catch (const pqxx::broken_connection &) {
      return;
    }
    throw std::runtime_error("still there");
  });
  return failed;
}
