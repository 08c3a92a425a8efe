# Plays NUMBER songs of the library one after the other, rates each of them, and saves them as a list: play.sh NUMBER
set -e
songs=$(mpc listall)
mpc -q clear
for i in $(seq "$1"); do
    song=$(echo "$songs" | sed -n "$(((i - 1) % 40 + 1))p")
    mpc -q add "$song"
    mpc -q play "$i"
    until [ "$(mpc status %state%)" = stopped ]; do sleep 0.02; done
    mpc sticker "$song" set rating 5
done
mpc -q save mix
