#!/bin/sh
# Runs the watch, and shows the verdict of the last 24 hours once a day as a persistent notification of Home Assistant.
#
# The Supervisor writes the options to /data/options.json, and gives the token for its API in SUPERVISOR_TOKEN. Without
# a Supervisor, the verdict is only written to the log.
set -eu

data=${FONIO_DATA:-/data}
supervisor=${FONIO_SUPERVISOR:-http://supervisor}

say() {
	echo "fonio: $*"
}

# Prints the text value of the option $1, or $2 if it is not set. The options are one level of JSON without escapes.
option() {
	value=$(sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" "$data/options.json" 2>/dev/null || true)
	echo "${value:-$2}"
}

# Prints standard input as the text of a JSON string.
quoted() {
	tr -d '\001-\010\013-\037' | awk '{ gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\t/, " "); printf "%s\\n", $0 }'
}

# Home Assistant shows Markdown: the tables after the first empty line become a code block, which keeps their columns.
in_markdown() {
	awk '!table && $0 == "" { table = 1; print ""; print "```"; next } { print } END { if (table) print "```" }'
}

# Shows a notification with the title $1 and the message of standard input. Replaces the one of the day before.
notify() {
	message=$(cat)
	echo "$1"
	echo "$message"
	if [ -z "${SUPERVISOR_TOKEN:-}" ]; then
		say "there is no Supervisor, so no notification was shown"
		return
	fi
	body=$(printf '{"title":"%s","message":"%s","notification_id":"fonio"}' "$1" "$(echo "$message" | in_markdown | quoted)")
	wget -q -O /dev/null --header "Authorization: Bearer $SUPERVISOR_TOKEN" --header "Content-Type: application/json" \
		--post-data "$body" "$supervisor/core/api/services/persistent_notification/create" ||
		say "Home Assistant did not accept the notification"
}

# Waits until the next time of day $1, in the time zone of the container.
wait_until() {
	hour=${1%:*}
	minute=${1#*:}
	now=$(date +%H:%M:%S)
	seconds=$(echo "$hour $minute $now" | awk -F '[ :]' '{ left = $1 * 3600 + $2 * 60 - $3 * 3600 - $4 * 60 - $5; if (left <= 0) left += 86400; print left }')
	sleep "$seconds" &
	sleeping=$!
	# A signal ends `wait`, but not `sleep`.
	wait "$sleeping"
}

at=$(option at 08:00)
stall=$(option stall 1s)
# The add-on keeps its history in its own folder, which is part of the backups of Home Assistant.
mkdir -p "$data/watch"
printf 'stall = "%s"\n' "$stall" >"$data/watch.toml"

# Containers have no tracefs, which fonio needs to see requests.
if [ ! -e /sys/kernel/tracing/trace ]; then
	mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null ||
		say "tracefs cannot be mounted, so the watch sees less; turn off protection mode on the page of the add-on"
fi

fonio watch run --config "$data/watch.toml" --state "$data/watch" --run /run/fonio-watch &
watch=$!
sleeping=
trap 'kill "$watch" $sleeping 2>/dev/null || true; wait "$watch" || true; exit 0' TERM INT
say "watching; the verdict of the last 24 hours is shown at $at"

while kill -0 "$watch" 2>/dev/null; do
	wait_until "$at"
	# The report names what stalled, who was in the way, and what wears out. If it cannot, it says why.
	verdict=$(fonio watch report --since 24h --state "$data/watch" --run /run/fonio-watch --color never 2>&1) || true
	echo "$verdict" | notify "fonio: storage in the last 24 hours"
	# The same minute must not come twice.
	sleep 1
done
wait "$watch"
