# Writes the statements of one of RLBench's thirteen tests to standard output: rlbench.pl TEST NUMBER
# RLBench's tests have the names of the tests 1 to 9, 11 to 13 and 16 of SQLite's old speed page (sqlite.org/speed.html);
# the statements come from there. NUMBER is the number of statements, in tests that have a number in their names.
use strict;
use warnings;

my ($test, $number) = @ARGV;
srand 1;
my @ones = qw(zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen);
my @tens = qw(0 0 twenty thirty forty fifty sixty seventy eighty ninety);

# Returns a number below 1,000,000 in words.
sub words {
    my ($n) = @_;
    return $ones[$n] if $n < 20;
    my ($unit, $name) = $n < 100 ? (10, "") : $n < 1000 ? (100, "hundred") : (1000, "thousand");
    my $first = $name ? words(int($n / $unit)) . " $name" : $tens[$n / 10];
    return $n % $unit ? "$first " . words($n % $unit) : $first;
}

sub insert {
    my ($table, $row) = @_;
    my $value = int rand 100_000;
    return "INSERT INTO $table VALUES($row, $value, '" . words($value) . "');";
}

sub table { "CREATE TABLE $_[0](a INTEGER, b INTEGER, c VARCHAR(100));" }

sub together { ("BEGIN;", @_, "COMMIT;") }

sub select_range {
    my ($width) = @_;
    my $from = int rand(100_000 - $width);
    return "SELECT count(*), avg(b) FROM t2 WHERE b >= $from AND b < $from + $width;";
}

my %tests = (
    insert => sub { table("t1"), map { insert("t1", $_) } 1 .. $number },
    "insert-together" => sub { together(table("t2"), map { insert("t2", $_) } 1 .. $number) },
    "insert-indexed" => sub {
        together(table("t3"), "CREATE INDEX i3 ON t3(c);", map { insert("t3", $_) } 1 .. $number);
    },
    select => sub { together(map { select_range(1000) } 1 .. $number) },
    "select-text" => sub {
        together(map { "SELECT count(*), avg(b) FROM t2 WHERE c LIKE '%" . words($_ % 100) . "%';" } 1 .. $number);
    },
    index => sub { "CREATE INDEX i2a ON t2(a);", "CREATE INDEX i2b ON t2(b);" },
    "select-indexed" => sub { map { select_range(100) } 1 .. $number },
    update => sub {
        together(map { "UPDATE t1 SET b = b * 2 WHERE a >= " . ($_ - 1) * 10 . " AND a < " . $_ * 10 . ";" } 1 .. $number);
    },
    "update-indexed" => sub { together(map { "UPDATE t2 SET b = " . int(rand 100_000) . " WHERE a = $_;" } 1 .. $number) },
    "insert-from-select" => sub {
        together("INSERT INTO t1 SELECT b, a, c FROM t2;", "INSERT INTO t2 SELECT b, a, c FROM t1;");
    },
    delete => sub { "DELETE FROM t2 WHERE c LIKE '%fifty%';" },
    "delete-indexed" => sub { "DELETE FROM t2 WHERE a > 10 AND a < 20000;" },
    drop => sub { map { "DROP TABLE $_;" } qw(t1 t2 t3) },
);
my $statements = $tests{$test} or die "no test is called $test\n";
print "$_\n" for $statements->();
