# Copies $2 files to the share ($1 is put), or from it ($1 is get). $3 is a file with Samba's settings.
mkdir -p /tmp/got
here=/tmp/files
test "$1" = put || here=/tmp/got
for i in $(seq "$2"); do
    echo "$1 $i"
done >/tmp/commands
# smbclient ends with success after a failed command.
{
    echo "lcd $here"
    cat /tmp/commands
} | smbclient -s "$3" -N //127.0.0.1/share >/tmp/said 2>&1 || cat /tmp/said
! grep NT_STATUS /tmp/said
