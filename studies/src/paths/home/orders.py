# Inserts an order five times a second, and notes how long each transaction of MariaDB took.
import subprocess
import time

server = subprocess.Popen(
    ["mariadb", "--unbuffered", "-N", "shop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
log = open("/run/orders.log", "a")
number = 0
while True:
    number += 1
    began = time.monotonic()
    server.stdin.write(f"insert into orders(t) values ('order {number}'); select 1;\n")
    server.stdin.flush()
    server.stdout.readline()
    log.write(f"{time.time():.3f} {time.monotonic() - began:.4f}\n")
    log.flush()
    time.sleep(0.2)
