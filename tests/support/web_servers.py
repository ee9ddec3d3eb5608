# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Web servers of tests, on loopback."""

import http.server
import socketserver
import ssl
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests, without a line in the output of the tests."""

    def content(self):
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def reply(self, status, body=b"", headers=()):
        """Send an answer, with more headers or with other ones."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:  # the client may have gone after the headers, as HAProxy does
            self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


class WebServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers at ``url`` until it is stopped."""

    request_queue_size = 128  # as many wait while the process is not scheduled: HAProxy takes a refused one for down
    daemon_threads = True  # a client that keeps its connection holds up neither the next one nor the end

    def __init__(self, handler, port=0, certificate=None):
        super().__init__(("127.0.0.1", port), handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.shutdown()
        self.server_close()
