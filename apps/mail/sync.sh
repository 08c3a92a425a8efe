# Syncs the mailbox, and fails unless NUMBER mails arrive: sync.sh CONFIGURATION NUMBER
said=$(mbsync -c "$1" -a 2>&1) || { echo "$said"; exit 1; }
case $said in
*"Near: +$2 "*) ;;
*) echo "$2 mails were expected: $said"; exit 1 ;;
esac
