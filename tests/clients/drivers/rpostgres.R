# R: RPostgreSQL through DBI.
suppressMessages(library(DBI))
suppressMessages(library(RPostgreSQL))

answer <- "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region"
failed <- FALSE
e <- function(name) Sys.getenv(paste0("PG", name))
db <- dbConnect(PostgreSQL(), host = e("HOST"), port = as.integer(e("PORT")), user = e("USER"), password = e("PASSWORD"), dbname = e("DATABASE"))
cat(sprintf('{"version": "%s"}\n', packageVersion("RPostgreSQL")))

check <- function(name, action) {
  why <- tryCatch({ force(action); "" }, error = function(error) conditionMessage(error))
  if (why == "") {
    cat(sprintf('{"check": "%s", "ok": true}\n', name))
  } else {
    failed <<- TRUE
    cat(sprintf('{"check": "%s", "ok": false, "why": "%s"}\n', name, gsub('[^[:alnum:] .:_-]', " ", why)))
  }
}
answered <- function(frame) stopifnot(identical(frame$region, c("east", "north", "south", "west")), abs(frame$n - 250) <= 3, abs(frame$h - 174.5) <= 3)

check("answer", answered(dbGetQuery(db, answer)))
check("parameters", stopifnot(abs(dbGetQuery(db, "SELECT count(*) AS n FROM people WHERE region = $1", "east")$n - 250) <= 3))
check("paging", { r <- dbSendQuery(db, answer); stopifnot(nrow(fetch(r, 3)) == 3, nrow(fetch(r, 3)) == 1); dbClearResult(r) })
check("transactions", { dbBegin(db); answered(dbGetQuery(db, answer)); dbRollback(db) })
check("errors", { stopifnot(is.null(suppressWarnings(tryCatch(dbGetQuery(db, "SELECT * FROM people"), error = function(e) NULL)))); answered(dbGetQuery(db, answer)) })
check("catalog", stopifnot(all(c("people", "shops", "visits") %in% dbListTables(db)), "region" %in% dbListFields(db, "people")))
invisible(dbDisconnect(db))
quit(status = if (failed) 1 else 0)
