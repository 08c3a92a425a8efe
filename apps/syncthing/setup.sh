# Makes a laptop in memory and a server in the folder $1 (on the device), which share a folder and know only each other.
set -e
laptop=/tmp/laptop server=$1/server
mkdir -p $laptop/share "$server/share"
for home in $laptop "$server"; do
    syncthing generate --home="$home/home" --no-default-folder
done
id() {
    syncthing serve --device-id --home="$1/home"
}
devices="<device id=\"$(id $laptop)\" name=\"laptop\"><address>tcp://127.0.0.1:22001</address></device>\
<device id=\"$(id "$server")\" name=\"server\"><address>tcp://127.0.0.1:22000</address></device>"
for home in $laptop "$server"; do
    port=22000
    test "$home" = "$server" || port=22001
    # Without announcements, relays, address translation, upgrades and reports, because there is no network; with the usual
    # priority, because other programs of this machine would delay a lower one.
    sed -i -e '/^    <device/,/^    <\/device>/d' \
        -e "s|<options>|$devices<folder id=\"share\" path=\"$home/share\" type=\"sendreceive\">\
<device id=\"$(id $laptop)\"/><device id=\"$(id "$server")\"/></folder><options>|" \
        -e "s|<listenAddress>.*<|<listenAddress>tcp://127.0.0.1:$port<|" \
        -e 's/\(AnnounceEnabled\|relaysEnabled\|natEnabled\|crashReportingEnabled\|startBrowser\|setLowPriority\)>true/\1>false/' \
        -e 's/<urAccepted>0/<urAccepted>-1/' -e 's/<autoUpgradeIntervalH>12/<autoUpgradeIntervalH>0/' "$home/home/config.xml"
done
id "$server" >/tmp/server-id
