# Replaces a word of each line of FILE, sorts the lines, saves the file after both, and ends: replace.sh FILE
set -e
printf ':%%s/text/words/\r:w\r:sort! n /Line/\r:wq\r' >/tmp/keys
vim -s /tmp/keys "$1"
head -n 1 "$1" | grep -q 'words' || { echo "vim did not save $1"; exit 1; }
