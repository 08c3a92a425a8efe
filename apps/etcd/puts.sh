# Puts as many keys as $1 says, one after the other. In etcd's HTTP interface, keys and values are in base64: any four
# digits are.
for i in $(seq "$1"); do
    printf 'url = "http://127.0.0.1:2379/v3/kv/put"\ndata = "{\\"key\\":\\"%04d\\",\\"value\\":\\"dmFsdWVzIGFyZSBzbWFsbA==\\"}"\noutput = "/dev/null"\nfail\nsilent\nshow-error\nnext\n' "$i"
done | sed '$d' | curl -K -
