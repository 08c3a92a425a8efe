# Writes the server's settings. $1 is the folder of the data, on the device; $2 is a folder in memory. As in Debian, the
# server's state is on the device, and its locks are in memory.
set -e
mkdir -p "$1/share" "$1/samba/private" "$1/samba/cache" "$2/locks"
chown nobody "$1/share"
cat >"$2/smb.conf" <<END
[global]
    server role = standalone server
    map to guest = bad user
    interfaces = lo
    bind interfaces only = yes
    disable netbios = yes
    smb ports = 445
    load printers = no
    state directory = $1/samba
    private dir = $1/samba/private
    cache directory = $1/samba/cache
    lock directory = $2/locks
    pid directory = $2/locks
    ncalrpc dir = $2/ncalrpc
[share]
    path = $1/share
    read only = no
    guest ok = yes
END
