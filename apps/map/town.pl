# Writes a made-up town as OpenStreetMap XML to standard output: SIZE streets in each direction, a house and a garden on
# both sides of each block, and a shop in each fifth: town.pl SIZE
use strict;
use warnings;

my ($size) = @ARGV;
srand 1;
my ($south, $west, $step) = (48, 11, 0.001);
my $last = 0;
my $ways = "";
my $now = 'version="1" timestamp="2026-01-01T00:00:00Z" changeset="1" uid="1" user="u"';
sub node {
    my ($row, $column, @tags) = @_;
    my $place = sprintf 'lat="%.6f" lon="%.6f"', $south + $row * $step, $west + $column * $step;
    $last++;
    print @tags ? qq(<node id="$last" $now $place>\n@tags</node>\n) : qq(<node id="$last" $now $place/>\n);
    return $last;
}
sub tag { qq(<tag k="$_[0]" v="$_[1]"/>\n) }
my $number = 0;
sub way {
    my ($nodes, @tags) = @_;
    $number++;
    $ways .= qq(<way id="$number" $now>\n) . join("", map { qq(<nd ref="$_"/>\n) } @$nodes) . "@tags</way>\n";
}
sub area {
    my ($row, $column, $height, $width, @tags) = @_;
    my @corners = map { node($row + $_->[0] * $height, $column + $_->[1] * $width) } [0, 0], [0, 1], [1, 1], [1, 0];
    way([@corners, $corners[0]], @tags);
}
print qq(<?xml version="1.0" encoding="UTF-8"?>\n<osm version="0.6" generator="town.pl">\n);
my @crossings = map { my $row = $_; [map { node($row + rand(0.1), $_ + rand(0.1)) } 0 .. $size] } 0 .. $size;
for my $street (0 .. $size) {
    my $kind = $street % 25 == 0 ? "primary" : $street % 5 == 0 ? "secondary" : "residential";
    for (my $from = 0; $from < $size; $from += 5) {
        my $to = $from + 5 > $size ? $size : $from + 5;
        way([map { $crossings[$street][$_] } $from .. $to], tag("highway", $kind), tag("name", "East Street $street"));
        way([map { $crossings[$_][$street] } $from .. $to], tag("highway", $kind), tag("name", "North Street $street"));
    }
}
for my $row (0 .. $size - 1) {
    for my $column (0 .. $size - 1) {
        area($row + 0.2, $column + 0.2, 0.2 + rand(0.2), 0.2 + rand(0.2), tag("building", "yes"));
        area($row + 0.6, $column + 0.6, 0.2 + rand(0.2), 0.2 + rand(0.2), tag("building", "yes"));
        area($row + 0.2, $column + 0.6, 0.2, 0.2, tag("leisure", "park"));
        node($row + 0.5, $column + 0.5, tag("shop", "bakery"), tag("name", "Bakery $row $column")) if ($row + $column) % 5 == 0;
    }
}
node($size / 2, $size / 2, tag("place", "town"), tag("name", "Town"));
print $ways, "</osm>\n";
