"""Serves pages that store data in the browser: a cookie, local storage, and 50 records of a database.

Usage: site.py ADDRESS"""

import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = """<!doctype html><title>wait</title><img src="/image-%(n)d.bin"><script>
document.cookie = "visit=%(n)d; max-age=99999"
localStorage.setItem("page-%(n)d", "x".repeat(2000))
const opened = indexedDB.open("app", 1)
opened.onupgradeneeded = () => opened.result.createObjectStore("records")
opened.onsuccess = async () => {
  for (let i = 0; i < 50; i++) {
    await new Promise((done, failed) => {
      const change = opened.result.transaction("records", "readwrite", { durability: "strict" })
      change.objectStore("records").put("y".repeat(500), "%(n)d-" + i)
      change.oncomplete = done
      change.onerror = failed
    })
  }
  document.title = "done"
}
</script>"""


class Site(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.strip("/")
        if name.startswith("page-"):
            body, kind = (PAGE % {"n": int(name[5:])}).encode(), "text/html"
        else:
            body, kind = random.Random(name).randbytes(60000), "image/png"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=99999")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer((sys.argv[1], 8000), Site).serve_forever()
