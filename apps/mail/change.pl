# Marks NUMBER new mails of a Maildir as read, and each fifth of them as deleted, as a mail reader does: change.pl FOLDER NUMBER
use strict;
use warnings;

my ($folder, $number) = @ARGV;
my @mails = sort glob "$folder/new/*";
die "$folder has fewer than $number new mails\n" if @mails < $number;
for my $at (1 .. $number) {
    my $from = $mails[$at - 1];
    my $to = ($from =~ s,/new/,/cur/,r) . ($at % 5 ? "S" : "ST");
    rename $from, $to or die "$from: $!\n";
}
