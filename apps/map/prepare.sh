# Makes the map of a town and the settings of the viewer: prepare.sh DATA RUN FILES
set -e
perl "$3/town.pl" 150 >/tmp/town.osm
(cd /tmp && maptool -i town.osm "$1/town.bin") >/tmp/maptool.log 2>&1 || { tail /tmp/maptool.log; exit 1; }
rm /tmp/town.osm
mkdir -p home/.navit /usr/share/navit/maps
echo "<map type=\"binfile\" data=\"$1/town.bin\"/>" >/usr/share/navit/maps/town.xml
# The settings of Debian, but in the middle of the town, and with a line of output after each picture.
sed 's,center="[^"]*" zoom="256",center="11.075 48.075" zoom="64",
    s,<debug name="navit:do_draw" dbg_level="error"/>,<debug name="profile:navit:do_draw" dbg_level="debug"/>,' \
    /etc/navit/navit.xml >"$2/navit.xml"
grep -q 'center="11.075 48.075" zoom="64"' "$2/navit.xml"
grep -q profile:navit:do_draw "$2/navit.xml"
