# Draws NUMBER pages of the document, from the first one on, and again from the first one after the last: turn.sh NUMBER
set -e
pages=$(seq "$1" | awk '{ print ($1 - 1) % 100 + 1 }' | paste -sd ,)
exec mutool draw -q -r 110 -F ppm -o /dev/null document.pdf "$pages"
