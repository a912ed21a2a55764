"""Waits for 50 ms in each request, so that each worker of gunicorn answers 20 requests/s."""

import time


def app(environ, start_response):
    time.sleep(0.05)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\n"]
