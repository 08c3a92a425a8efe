# Puts NUMBER mails into the inbox of a server, the first with the number FIRST: mails.pl FOLDER FIRST NUMBER
# The sizes are made up: of ten mails, five have 2 to 8 KiB, four 8 to 64 KiB, and one 100 KiB to 1 MiB, as with an
# attachment. The mail of a number is always the same.
use strict;
use warnings;

my ($folder, $first, $number) = @ARGV;
srand 1;
my @lines = map { join("", map { chr 33 + rand 94 } 1 .. 76) . "\n" } 1 .. 1000;
for my $n ($first .. $first + $number - 1) {
    srand $n;
    my $kib = $n % 10 == 0 ? 100 * 10 ** rand : $n % 10 < 6 ? 2 * 4 ** rand : 8 * 8 ** rand;
    my $time = sprintf "%02d:%02d:%02d", $n / 3600 % 24, $n / 60 % 60, $n % 60;
    open my $mail, ">", "$folder/new/1785715200.$n.server" or die "$folder/new: $!\n";
    print $mail "From: sender$n\@example.org\nTo: user\@example.org\nDate: Mon, 3 Aug 2026 $time +0000\n",
        "Message-ID: <$n\@example.org>\nSubject: Mail $n\n\n", map { $lines[rand @lines] } 1 .. $kib * 1024 / 77;
    close $mail or die "$folder/new: $!\n";
}
