"""Serves sites: each has a page of 20 to 120 KiB with 24 images, and sets four cookies."""

import random
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Weights and ranges of the sizes of images in bytes.
IMAGES = [(45, 500, 4 << 10), (40, 4 << 10, 24 << 10), (15, 40 << 10, 120 << 10)]
IMAGES_PER_PAGE = 24
COOKIES_PER_SITE = 4


def page(site):
    chance = random.Random(site)
    images = "".join(f'<img src="/image-{at}">' for at in range(IMAGES_PER_PAGE))
    words = " ".join(f"{chance.randrange(1 << 32):x}" for _ in range(chance.randrange(20 << 10, 120 << 10) // 9))
    return f'<!doctype html><title>wait</title><body onload="document.title = \'done\'">{images}<p>{words}</p>'.encode()


def image(name):
    chance = random.Random(name)
    _, least, most = chance.choices(IMAGES, [weight for weight, _, _ in IMAGES])[0]
    return chance.randbytes(chance.randrange(least, most))


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site = self.headers["Host"]
        is_page = self.path == "/"
        body = page(site) if is_page else image(site + self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "image/png")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=99999")
        for at in range(COOKIES_PER_SITE if is_page else 0):
            value = f"{random.Random(site).randrange(1 << 128):x}"
            self.send_header("Set-Cookie", f"name-{at}={value}; Max-Age=99999")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", 8000), Site).serve_forever()
