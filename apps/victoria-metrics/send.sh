# Sends $1 messages, one after the other; with more arguments of curl, such as --rate 10/s, as these say.
count=$1
shift
for i in $(seq "$count"); do
    printf 'url = "http://127.0.0.1:8428/api/v1/import/prometheus"\ndata-binary = "@/tmp/messages/%s"\noutput = "/dev/null"\nfail\nsilent\nshow-error\nnext\n' "$i"
done | sed '$d' | curl "$@" -K -
