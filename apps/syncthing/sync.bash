# Changes the shared folder on the laptop, and waits until the server's folder $1 is the same. Usage: sync.bash FOLDER new
# COUNT, sync.bash FOLDER change COUNT, sync.bash FOLDER remove COUNT, sync.bash FOLDER connect
set -e
server=$1
cd /tmp/laptop/share

# Sends a request to the laptop's Syncthing, and prints the answer.
ask() {
    exec 3<>/dev/tcp/127.0.0.1/8385
    printf '%s /rest/%s HTTP/1.0\r\nHost: localhost\r\nX-API-Key: fonio\r\nContent-Length: 0\r\n\r\n' "$1" "$2" >&3
    cat <&3
}

# Repeats a command until it succeeds, for five minutes at most.
wait_for() {
    for _ in $(seq 3000); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "not within five minutes: $*"
    exit 1
}

is_connected() {
    ask GET system/connections | grep -q '"connected": true'
}

# Lists the files with their sizes and times, which Syncthing sets last.
list() {
    find "$1" -maxdepth 1 -type f ! -name '.*' -printf '%P %s %T@\n' | sort
}

is_same() {
    [ "$(list "$server")" = "$sent" ]
}

# Every tenth file is a photo, the others are documents.
files() {
    for i in $(seq "$1"); do
        size=50000
        [ $((i % 10)) -ne 0 ] || size=500000
        head -c $size /dev/urandom >"file-$i"
    done
}

case $2 in
connect)
    wait_for is_connected
    exit
    ;;
new) files "$3" ;;
change) for i in $(seq "$3"); do echo changed >>"file-$i"; done ;;
remove) for i in $(seq "$3"); do rm "file-$i"; done ;;
esac
# Syncthing scans the folder by itself 10 s after a change.
ask POST db/scan?folder=share | grep -q ' 200 '
sent=$(list .)
wait_for is_same
