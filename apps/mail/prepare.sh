# Writes the settings of the server and of the client: prepare.sh DATA RUN FILES SERVER
set -e
for file in dovecot.conf mbsyncrc; do
    sed "s,@DATA@,$1,; s,@RUN@,$2,; s,@SERVER@,$4," "$3/$file" >"$2/$file"
done
# Filling the mailbox before the clock starts needs no syncs.
{ echo FSync no; cat "$2/mbsyncrc"; } >"$2/mbsyncrc-fill"
mkdir -p mail "$2/server/new" "$2/server/cur" "$2/server/tmp"
chown -R mail:mail "$2/server"
