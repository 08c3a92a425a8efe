# Makes 40 songs and the settings of the player: prepare.sh DATA RUN FILES
set -e
mkdir music playlists
sed "s,@DATA@,$1,; s,@RUN@,$2," "$3/mpd.conf" >"$2/mpd.conf"
# A second of a chord that fades, in 16 bits and stereo, 120 times.
perl -e '
    for my $at (0 .. 44_099) {
        my $t = $at / 44_100;
        my $left = 6000 * exp(-2 * $t) * (sin(1382 * $t) + sin(2073 * $t) + rand);
        print pack "s<2", $left, 0.7 * $left;
    }' >/tmp/second
for i in $(seq 120); do cat /tmp/second; done | oggenc -Q -r -b 128 -o /tmp/song.ogg -
for i in $(seq 40); do
    album=album-$(((i + 9) / 10))
    mkdir -p "music/$album"
    vorbiscomment -w -t "TITLE=Song $i" -t "ARTIST=Artist $((i % 7))" -t "ALBUM=$album" -t "TRACKNUMBER=$i" /tmp/song.ogg "music/$album/$i.ogg"
done
