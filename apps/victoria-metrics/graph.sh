# Asks for the average of each room in two days. Fails if the answer has no value.
curl -sSf -o /tmp/graph "http://127.0.0.1:8428/api/v1/query_range?nocache=1&step=600&start=-2d" \
    --data-urlencode 'query=avg by (room) (home_value)'
grep -q '"room":"room 1"' /tmp/graph
