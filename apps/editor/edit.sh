# Opens FILE in vim, adds NUMBER lines at its end, saves it after each of them, and ends: edit.sh FILE NUMBER
set -e
i=0
while [ $i -lt "$2" ]; do
    i=$((i + 1))
    printf 'GoLine %d of what somebody types into an editor.\033:w\r' $i
done >/tmp/keys
printf ':q\r' >>/tmp/keys
vim -s /tmp/keys "$1"
[ "$(tail -n 1 "$1")" = "Line $2 of what somebody types into an editor." ] || { echo "vim did not save $1"; exit 1; }
