# Perl DBD::Pg: server-side prepare, attributes, metadata, COPY, asynchronous cancel.
use strict;
use warnings;
use DBI;

my $answer = "SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region";
my $failed = 0;
my $dbh = DBI->connect("dbi:Pg:", "", "", { RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => 1, pg_enable_utf8 => 1 });
$| = 1;
binmode(STDOUT, ":utf8");
print qq({"version": "$DBD::Pg::VERSION"}\n);

sub check {
    my ($name, $action) = @_;
    if (eval { $action->(); 1 }) { print qq({"check": "$name", "ok": true}\n); return }
    my $why = "$@";
    $why =~ s/(["\\])/\\$1/g;
    $why =~ s/[\x00-\x1f]/ /g;
    print qq({"check": "$name", "ok": false, "why": "$why"}\n);
    $failed = 1;
}

sub that { my ($holds, $what) = @_; die "not: $what" unless $holds }

sub answered {
    my ($rows) = @_;
    that(join(",", map { $_->[0] } @$rows) eq "east,north,south,west", "regions");
    for (@$rows) { that(abs($_->[1] - 250) <= 3 && abs($_->[2] - 174.5) <= 3, "@$_") }
}

sub refused {
    my ($action, $state) = @_;
    my $done = eval { $action->(); 1 };
    that(!$done, "refused");
    that($DBI::state eq $state, "$DBI::state is not $state: $@");
}

check("answer", sub { answered($dbh->selectall_arrayref($answer)) });
check("types", sub {
    my $sth = $dbh->prepare("SELECT member, count(*) AS n, sum(income) AS i FROM people GROUP BY 1 ORDER BY 1");
    $sth->execute;
    that(join(",", @{ $sth->{pg_type} }) eq "bool,int8,numeric", "@{ $sth->{pg_type} }");
    my ($name) = $dbh->selectrow_array("SELECT name FROM shops ORDER BY id LIMIT 1");
    that($name eq "\x{141}\x{f3}d\x{17a}", "name");
});
check("parameters", sub {
    my ($n) = $dbh->selectrow_array("SELECT count(*) FROM people WHERE region = ? AND height < ?", undef, "east", 160);
    that(abs($n - 50) <= 2, $n);
});
check("prepared", sub {
    my $sth = $dbh->prepare("SELECT count(*) FROM people WHERE region = ?");
    for my $region (qw(east west east)) { $sth->execute($region); my ($n) = $sth->fetchrow_array; that(abs($n - 250) <= 3, $n); $sth->finish }
});
check("transactions", sub {
    $dbh->begin_work;
    answered($dbh->selectall_arrayref($answer));
    $dbh->pg_savepoint("a");
    refused(sub { $dbh->do("SELECT * FROM people") }, "42501");
    $dbh->pg_rollback_to("a");
    answered($dbh->selectall_arrayref($answer));
    $dbh->commit;
});
check("errors", sub {
    refused(sub { $dbh->selectall_arrayref("SELECT email FROM people") }, "42703");
    refused(sub { $dbh->selectall_arrayref("SELECT * FROM people WHERE region = ?", undef, "east") }, "42501");
    answered($dbh->selectall_arrayref($answer));
});
check("catalog", sub {
    my %tables = map { $_->[2] => 1 } @{ $dbh->table_info(undef, "public", "%", "TABLE")->fetchall_arrayref };
    that($tables{people} && $tables{visits} && $tables{shops}, join(",", keys %tables));
    my %columns = map { $_->[3] => 1 } @{ $dbh->column_info(undef, "public", "people", "%")->fetchall_arrayref };
    that($columns{region} && !$columns{email}, join(",", keys %columns));
    that(join(",", $dbh->primary_key(undef, "public", "people")) eq "id", "key");
});
check("copy", sub {
    $dbh->do("COPY ($answer) TO STDOUT");
    my ($row, $count) = ("", 0);
    $count++ while $dbh->pg_getcopydata($row) >= 0;
    that($count == 4, $count);
});
check("cancel", sub {
    my $cancelled = 0;
    for (1 .. 5) { # one that comes before the query has begun cancels nothing, here as with PostgreSQL: it waits for the answer
        $dbh->do("SELECT pg_sleep(3)", { pg_async => 1 });
        last if $cancelled = $dbh->pg_cancel;
    }
    that($cancelled, "cancelled");
    answered($dbh->selectall_arrayref($answer));
});
$dbh->disconnect;
exit $failed;
