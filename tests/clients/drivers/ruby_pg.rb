# Ruby pg: exec_params, prepared statements, single row mode, COPY, cancel, type maps.
require "pg"
require "json"

ANSWER = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region"
$failed = false
$stdout.sync = true
$db = PG.connect
$db.set_notice_processor { |_| }
puts JSON.generate("version" => PG::VERSION)

def check(name)
  yield
  puts JSON.generate("check" => name, "ok" => true)
rescue StandardError => e
  $failed = true
  puts JSON.generate("check" => name, "ok" => false, "why" => e.full_message(highlight: false))
end

def that(holds, what) = holds || raise("not: #{what}")

def answered(result)
  rows = result.values
  that rows.map(&:first) == %w[east north south west], rows
  rows.each { |r| that (r[1].to_f - 250).abs <= 3 && (r[2].to_f - 174.5).abs <= 3, r }
end

def refused(state)
  yield
rescue PG::Error => e
  that e.result.error_field(PG::PG_DIAG_SQLSTATE) == state, e.message
else
  raise "no error"
end

check("answer") { answered $db.exec(ANSWER) }
check("types") do
  typed = PG.connect
  typed.set_notice_processor { |_| }
  typed.type_map_for_results = PG::BasicTypeMapForResults.new(typed)
  row = typed.exec("SELECT member, count(*) AS n, avg(height) AS h FROM people GROUP BY 1 ORDER BY 1")[0]
  that row["member"] == false && row["n"].is_a?(Integer) && row["h"].is_a?(Float), row
  typed.close
end
check("parameters") { that ($db.exec_params("SELECT count(*) FROM people WHERE region = $1 AND height < $2", ["east", 160]).getvalue(0, 0).to_i - 50).abs <= 2, 50 }
check("prepared") do
  $db.prepare("by_region", "SELECT count(*) FROM people WHERE region = $1")
  %w[east west].each { |r| that ($db.exec_prepared("by_region", [r]).getvalue(0, 0).to_i - 250).abs <= 3, r }
  that $db.describe_prepared("by_region").nparams == 1, "described"
end
check("paging") do
  $db.send_query(ANSWER)
  $db.set_single_row_mode
  count = 0
  $db.get_result.stream_each { count += 1 }
  that count == 4, count
end
check("transactions") do
  refused("42501") { $db.transaction { |c| c.exec("SELECT * FROM people") } }
  $db.transaction { |c| answered c.exec(ANSWER) }
end
check("errors") do
  refused("42703") { $db.exec("SELECT email FROM people") }
  answered $db.exec(ANSWER)
end
check("copy") do
  count = 0
  $db.copy_data("COPY (#{ANSWER}) TO STDOUT") { count += 1 while $db.get_copy_data }
  that count == 4, count
end
check("cancel") do
  $db.send_query("SELECT pg_sleep(20)")
  begin # again until it is heard: one that comes before the query has begun cancels nothing, here as with PostgreSQL
    $db.cancel
    $db.consume_input
  end while $db.is_busy
  refused("57014") { $db.get_last_result }
end
exit($failed ? 1 : 0)
