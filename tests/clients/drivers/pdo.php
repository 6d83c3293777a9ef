<?php
// PHP PDO: server-side prepare, emulated prepare, scrollable cursors, COPY; then the older pg_* functions.
$answer = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region";
$failed = false;
[$host, $port, $user, $password, $database] = array_map(fn($n) => getenv("PG$n"), ["HOST", "PORT", "USER", "PASSWORD", "DATABASE"]);
$dsn = "pgsql:host=$host;port=$port;dbname=$database";
$db = new PDO($dsn, $user, $password, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
echo json_encode(["version" => PHP_VERSION]), "\n";

function check(string $name, callable $action): void {
    global $failed;
    try {
        $action();
        echo json_encode(["check" => $name, "ok" => true]), "\n";
    } catch (Throwable $error) {
        $failed = true;
        echo json_encode(["check" => $name, "ok" => false, "why" => (string) $error]), "\n";
    }
}

function that(bool $holds, $what): void { if (!$holds) throw new Exception("not: " . json_encode($what)); }

function answered(array $rows): void {
    that(array_column($rows, 0) == ["east", "north", "south", "west"], $rows);
    foreach ($rows as $row) that(abs($row[1] - 250) <= 3 && abs($row[2] - 174.5) <= 3, $row);
}

function refused(callable $action, string $state): void {
    try { $action(); } catch (PDOException $error) { that($error->getCode() === $state, (string) $error); return; }
    throw new Exception("no error");
}

check("answer", fn() => answered($db->query($answer)->fetchAll(PDO::FETCH_NUM)));
check("types", function () use ($db) {
    $row = $db->query("SELECT member, count(*) AS n FROM people GROUP BY 1 ORDER BY 1")->fetch(PDO::FETCH_ASSOC);
    that($row["member"] === false && is_int($row["n"]), $row);
    that($db->query("SELECT name FROM shops ORDER BY id LIMIT 1")->fetchColumn() === "Łódź", "name");
});
check("parameters", function () use ($db, $dsn, $user, $password) {
    foreach ([false, true] as $emulated) {
        $statement = $db->prepare("SELECT count(*) FROM people WHERE region = :r AND height < :h", [PDO::ATTR_EMULATE_PREPARES => $emulated]);
        $statement->execute(["r" => "east", "h" => 160]);
        that(abs($statement->fetchColumn() - 50) <= 2, "50");
    }
});
check("prepared", function () use ($db) {
    $statement = $db->prepare("SELECT count(*) FROM people WHERE region = ?");
    foreach (["east", "west"] as $region) { $statement->execute([$region]); that(abs($statement->fetchColumn() - 250) <= 3, $region); }
});
check("paging", function () use ($db, $answer) {
    $db->beginTransaction();
    $statement = $db->prepare($answer, [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
    $statement->execute();
    that($statement->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_ABS, 3)[0] === "south", "third");
    $db->rollBack();
});
check("transactions", function () use ($db, $answer) {
    $db->beginTransaction();
    refused(fn() => $db->query("SELECT * FROM people"), "42501");
    refused(fn() => $db->query("SELECT 1"), "25P02");
    $db->rollBack();
    answered($db->query($answer)->fetchAll(PDO::FETCH_NUM));
});
check("errors", function () use ($db, $answer) {
    refused(fn() => $db->query("SELECT email FROM people"), "42703");
    answered($db->query($answer)->fetchAll(PDO::FETCH_NUM));
});
check("copy", fn() => that(count($db->pgsqlCopyToArray("shops")) === 3, "rows"));
check("catalog", function () use ($host, $port, $user, $password, $database) {
    $link = pg_connect("host=$host port=$port user=$user password='$password' dbname=$database");
    $columns = pg_meta_data($link, "people");
    that(isset($columns["region"]) && !isset($columns["email"]), array_keys($columns));
    $found = pg_query_params($link, 'SELECT count(*) FROM people WHERE region = $1', ["east"]);
    that(abs(pg_fetch_result($found, 0, 0) - 250) <= 3, "250");
});
exit($failed ? 1 : 0);
