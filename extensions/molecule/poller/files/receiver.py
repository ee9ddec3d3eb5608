# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Usage: receiver.py PORT SECRET FILE

Writes a line for each webhook: its event's id, its phase, its own id, and whether it is signed with the secret.
"""

import hashlib
import hmac
import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        names = "X-Scheduled-Events-Id", "X-Scheduled-Events-Timestamp"
        signed = b".".join([*(self.headers[name].encode() for name in names), body])
        expected = "sha256=" + hmac.new(sys.argv[2].encode(), signed, hashlib.sha256).hexdigest()
        genuine = hmac.compare_digest(expected, self.headers["X-Scheduled-Events-Signature"])
        message = json.loads(body)
        genuine = genuine and message["id"] == self.headers["X-Scheduled-Events-Id"]
        with open(sys.argv[3], "a") as file:
            file.write("{event_id}|{phase}|{id}|{0}\n".format("signed" if genuine else "forged", **message))
        self.send_response(204)
        self.end_headers()


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
