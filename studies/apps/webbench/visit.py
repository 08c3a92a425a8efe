"""Visits sites one after the other in a running Chromium, through its DevTools protocol. Usage: visit.py NUMBER"""

import json
import sys
import time
import urllib.request

import websocket

PATIENCE_S = 300


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

    def state(self):
        """Returns the address and the title of the page."""
        answer = self.call("Runtime.evaluate", expression="location.href + ' ' + document.title")
        return answer.get("result", {}).get("result", {}).get("value")


page = Page()
for number in range(int(sys.argv[1])):
    site = f"http://site-{number}.example/"
    page.call("Page.navigate", url=site)
    until = time.monotonic() + PATIENCE_S
    while page.state() != f"{site} done":
        if time.monotonic() > until:
            sys.exit(f"{site} was not loaded within {PATIENCE_S} s")
        time.sleep(0.01)
