"""Loads pages one after the other in a running Chromium, through its DevTools protocol. Usage: drive.py SERVER NUMBER"""

import json
import sys
import time
import urllib.request

import websocket

PATIENCE_S = 30


def page_address():
    """Returns the address at which the first page takes commands."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with urllib.request.urlopen("http://127.0.0.1:9222/json") as listing:
            for target in json.load(listing):
                if target["type"] == "page":
                    return target["webSocketDebuggerUrl"]
        time.sleep(0.02)
    sys.exit("Chromium lists no page")


class Page:
    def __init__(self):
        self.socket = websocket.create_connection(page_address(), timeout=PATIENCE_S)
        self.sent = 0

    def call(self, method, **parameters):
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.sent:
                return answer

    def title(self):
        answer = self.call("Runtime.evaluate", expression="document.title")
        return answer.get("result", {}).get("result", {}).get("value")


page = Page()
server, pages = sys.argv[1], int(sys.argv[2])
for number in range(pages):
    page.call("Page.navigate", url=f"http://{server}:8000/page-{number}")
    until = time.monotonic() + PATIENCE_S
    while page.title() != "done":
        if time.monotonic() > until:
            sys.exit(f"page {number} was not done within {PATIENCE_S} s")
        time.sleep(0.01)
