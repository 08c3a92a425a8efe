# Puts as many keys as $1 says, one after the other. In etcd's HTTP interface, keys and values are in base64: any four
# digits are. After ten thousand keys, they get new values.
for i in $(seq "$1"); do
    printf 'url = "http://127.0.0.1:2379/v3/kv/put"\ndata = "{\\"key\\":\\"%04d\\",\\"value\\":\\"dmFsdWVzIGFyZSBzbWFsbA==\\"}"\noutput = "/dev/null"\nfail\nsilent\nshow-error\nnext\n' "$((i % 10000))"
done | sed '$d' | curl -K -
