# dbplyr over RPostgreSQL: verbs of dplyr as SQL. Run with R_LIBS where dbplyr is.
suppressPackageStartupMessages({
  library(DBI)
  library(dplyr)
})
env <- function(name) Sys.getenv(paste0("PG", name))
town <- dbConnect(RPostgreSQL::PostgreSQL(), host = env("HOST"), port = as.integer(env("PORT")), user = env("USER"),
                  password = env("PASSWORD"), dbname = env("DATABASE"))
cat(sprintf('{"version": "%s"}\n', packageVersion("dbplyr")))
failed <- FALSE
check <- function(name, action) {
  why <- tryCatch({ force(action); NULL }, error = function(e) conditionMessage(e))
  if (is.null(why)) {
    cat(sprintf('{"check": "%s", "ok": true}\n', name))
  } else {
    failed <<- TRUE
    cat(sprintf('{"check": "%s", "ok": false, "why": "%s"}\n', name, gsub('["\\\\\n]', " ", why)))
  }
}
close_to <- function(one, other, by = 1.5) stopifnot(abs(as.numeric(one) - other) <= by)
people <- tbl(town, "people")
visits <- tbl(town, "visits")

check("answer", {
  rows <- people |> group_by(region) |> summarise(n = n(), h = mean(height, na.rm = TRUE)) |> arrange(region) |> collect()
  stopifnot(identical(rows$region, c("east", "north", "south", "west")))
  close_to(rows$n[1], 250)
  close_to(rows$h[2], 175)
  joined <- visits |> inner_join(people, by = c("person" = "id")) |> filter(region == "east") |> count() |> pull(n)
  stopifnot(joined > 400)
})
check("types", {
  shops <- tbl(town, "shops") |> arrange(id) |> collect()
  stopifnot(nrow(shops) == 3, shops$name[3] == "c")
  years <- people |> mutate(year = sql("EXTRACT(YEAR FROM born)")) |> count(year) |> arrange(year) |> collect()
  stopifnot(years$year[1] == 1950)
})
check("parameters", close_to(people |> filter(region == "east", height < 160) |> count() |> pull(n), 50))
check("errors", {
  said <- tryCatch({ people |> filter(region == "east") |> collect(); "none" }, error = function(e) "refused",
                   warning = function(w) "refused")
  stopifnot(said == "refused")
})
check("previews", {
  stopifnot(nrow(people |> head(3) |> collect()) == 3)
  shown <- capture.output(print(people, n = 5))
  stopifnot(any(grepl("region", shown)))
})
check("catalog", stopifnot("people" %in% dbListTables(town), !("email" %in% colnames(people))))
invisible(dbDisconnect(town))
quit(status = as.integer(failed))
