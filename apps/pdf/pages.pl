# Writes NUMBER pages for `mutool create` into FOLDER, each with a picture and 40 lines of text: pages.pl FOLDER NUMBER
use strict;
use warnings;

my ($folder, $number) = @ARGV;
srand 1;
sub word { join "", map { chr 97 + rand 26 } 1 .. 2 + rand 8 }
for my $page (map { sprintf "%03d", $_ } 1 .. $number) {
    # A picture of noise, which compression does not make smaller.
    open my $picture, ">:raw", "$folder/$page.ppm" or die "$folder: $!\n";
    print $picture "P6\n200 150\n255\n", pack "C*", map { rand 256 } 1 .. 200 * 150 * 3;
    close $picture or die "$folder: $!\n";
    open my $text, ">", "$folder/$page.txt" or die "$folder: $!\n";
    print $text "%%MediaBox 0 0 595 842\n%%Font Text Times-Roman\n%%Image Picture $folder/$page.ppm\n",
        "q 400 0 0 300 97 500 cm /Picture Do Q\nBT /Text 10 Tf 72 460 Td 10 TL\n",
        (map { "(" . join(" ", map { word } 1 .. 15) . ") '\n" } 1 .. 40), "ET\n";
    close $text or die "$folder: $!\n";
}
