# Moves the map NUMBER times, and waits for each picture: pan.sh RUN NUMBER
set -e
drawn() { grep -c do_draw:end "$1/navit.log"; }
for i in $(seq "$2"); do
    before=$(drawn "$1")
    # Round and round: five to each side, so that the town is not left.
    case $(((i - 1) / 5 % 4)) in
    0) key=Right ;;
    1) key=Down ;;
    2) key=Left ;;
    *) key=Up ;;
    esac
    xdotool key "$key"
    waited=0
    while [ "$(drawn "$1")" -le "$before" ]; do
        waited=$((waited + 1))
        [ $waited -lt 3000 ] || { echo "navit did not draw the map after key $i"; exit 1; }
        sleep 0.01
    done
done
