# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of Azure Resource Manager, after its public documentation. It was never compared with the real one.

It keeps resources as JSON, gives each write an etag and some reads in the state Updating, refuses a write with an old
etag (412) and one while another is under way (429 RetryableError), and throttles (429 with a pause). It takes the etag
of an instance of a scale set from the header alone.
"""

import collections
import copy
import json
import os
import pathlib
import re
import threading
import urllib.parse

from web_servers import Handler, WebServer

SUBSCRIPTION = "/subscriptions/11111111-2222-3333-4444-555555555555"
NETWORK = f"{SUBSCRIPTION}/resourceGroups/shop/providers/Microsoft.Network"
COMPUTE = f"{SUBSCRIPTION}/resourceGroups/shop/providers/Microsoft.Compute"
BALANCER, GATEWAY = f"{NETWORK}/loadBalancers/lb", f"{NETWORK}/applicationGateways/gw"
COLLECTIONS = pathlib.Path(__file__).parent / "collections"
TOKEN = "token-that-nobody-may-see"
Answer = collections.namedtuple("Answer", "status pause body")
POOL, GATEWAY_POOL = f"{BALANCER}/backendAddressPools/www", f"{GATEWAY}/backendAddressPools/web"


class Refused(Exception):
    """An answer that is an error: ``status`` and the ``body`` that Azure documents."""

    def __init__(self, status, code, message, details=()):
        super().__init__(status, code, message)
        self.status = status
        self.body = {"error": {"code": code, "message": message, **({"details": list(details)} if details else {})}}


class ArmStandIn:
    """:param updating_for: how many reads after a write show the state Updating."""

    def __init__(self, *, updating_for=1):
        self.resources = {}
        self.calls = []  # (method, path)
        self.versions = []  # of the API, as they were asked for
        self.updating_for = updating_for
        self.answers = []  # callables(method, path, body) that are asked before anything else; None: go on
        self.acknowledged = []
        self._updating = {}
        self._etag = 0
        self._lock = threading.Lock()

    def put(self, path, **body):
        """A resource that exists from the beginning."""
        body["properties"] = {"provisioningState": "Succeeded", **body.get("properties", {})}
        self._etag += 1
        self.resources[path.lower()] = {
            "id": path,
            "name": path.rpartition("/")[2],
            "etag": f'W/"{self._etag}"',
            **body,
        }

    def throttle_every(self, number, *, pause="Please try again after '2' seconds."):
        """Refuse every so manyth call, as Azure does it when a subscription asks too often."""
        count = iter(range(1, 10**9))

        def answer(_method, _path, _body):
            if next(count) % number == 0:
                raise Refused(429, "SubscriptionRequestsThrottled", f"Number of requests exceeded the limit. {pause}")

        self.answers.append(answer)

    def count(self, method, path=""):
        return len([call for call in self.calls if call[0] == method and call[1].lower().endswith(path.lower())])

    def handle(self, method, path, body=None):
        """The status and the body of an answer."""
        with self._lock:
            self.calls.append((method, path))
            try:
                for answer in self.answers:
                    given = answer(method, path, body)
                    if given is not None:
                        return given
                return {"GET": self._get, "PUT": self._put, "POST": self._post}[method](path, body)
            except Refused as refusal:
                return refusal.status, refusal.body

    def _get(self, path, _body):
        resource = self._resource(path)
        left = self._updating.get(path.lower(), 0)
        if left:
            self._updating[path.lower()] = left - 1
        shown = copy.deepcopy(resource)
        if left:
            shown["properties"]["provisioningState"] = "Updating"
        if path.lower().endswith("/loadbalancers/lb"):
            return 200, shown
        return 200, self._with_references(shown)

    def _with_references(self, shown):
        """Gateways show the interfaces that point to their pools."""
        for pool in shown["properties"].get("backendAddressPools") or []:
            if "/applicationgateways/" not in pool["id"].lower():
                continue
            pool["properties"]["backendIPConfigurations"] = [
                {"id": configuration["id"]}
                for configuration in self._all_configurations()
                for each in configuration["properties"].get("applicationGatewayBackendAddressPools") or []
                if each["id"].lower() == pool["id"].lower()
            ]
        return shown

    def _all_configurations(self):
        for path, resource in self.resources.items():
            properties = resource["properties"]
            if "/networkinterfaces/" in path:
                for each in properties["ipConfigurations"]:
                    yield {**each, "id": f"{resource['id']}/ipConfigurations/{each['name']}"}
            for interface in properties.get("networkProfileConfiguration", {}).get(
                "networkInterfaceConfigurations", []
            ):
                for each in interface["properties"]["ipConfigurations"]:
                    name = f"{resource['id']}/networkInterfaces/{interface['name']}/ipConfigurations/{each['name']}"
                    yield {**each, "id": name}

    def _put(self, path, body):
        before = self._resource(path)
        if self._updating.get(path.lower()):
            raise Refused(429, "RetryableError", "A retryable error occurred.", [_another_operation()])
        if body.get("etag") not in (None, before["etag"]):
            raise Refused(412, "PreconditionFailed", "Precondition failed.", [_etag_mismatch()])
        self._etag += 1
        self.resources[path.lower()] = {**copy.deepcopy(body), "etag": f'W/"{self._etag}"'}
        self._updating[path.lower()] = self.updating_for
        return 200, {"id": before["id"], "properties": {"provisioningState": "Updating"}}

    def _post(self, path, _body):
        self.acknowledged.append(path.split("/")[-2])
        return 200, {"value": "Successfully Approved"}

    def _resource(self, path):
        try:
            return self.resources[path.lower()]
        except KeyError:
            raise Refused(404, "ResourceNotFound", f"The Resource '{path}' was not found.") from None

    # What tests put there and look at

    def add_balancer(self, addresses, *, pool=POOL, probe=True, **properties):
        """A balancer with one pool; ``addresses``: the ``properties`` of each member, by its name."""
        rule = {"backendAddressPool": {"id": pool}, **({"probe": {"id": f"{BALANCER}/probes/http"}} if probe else {})}
        self.put(
            pool.partition("/backendAddressPools/")[0],
            properties={"loadBalancingRules": [{"name": "http", "properties": rule}]},
        )
        members = [{"name": name, "properties": own} for name, own in addresses.items()]
        self.put(pool, properties={"loadBalancerBackendAddresses": members, **properties})

    def states(self, pool=POOL):
        """The admin state of each member."""
        members = self.resources[pool.lower()]["properties"]["loadBalancerBackendAddresses"]
        return {each["name"]: each["properties"].get("adminState", "None") for each in members}

    def add_gateway(self, addresses=(), *, draining=None):
        settings = f"{GATEWAY}/backendHttpSettingsCollection/http"
        rule = {"backendAddressPool": {"id": GATEWAY_POOL}, "backendHttpSettings": {"id": settings}}
        own = {"connectionDraining": {"enabled": True, "drainTimeoutInSec": draining}} if draining else {}
        pool = {"backendAddresses": [{"ipAddress": address} for address in addresses]}
        self.put(
            GATEWAY,
            properties={
                "backendAddressPools": [{"id": GATEWAY_POOL, "name": "web", "properties": pool}],
                "backendHttpSettingsCollection": [{"id": settings, "properties": own}],
                "requestRoutingRules": [{"name": "all", "properties": rule}],
            },
        )

    def addresses(self):
        """The IP addresses in the pool of the gateway."""
        pool = self.resources[GATEWAY.lower()]["properties"]["backendAddressPools"][0]
        return [each["ipAddress"] for each in pool["properties"]["backendAddresses"]]


def _another_operation():
    return {"code": "AnotherOperationInProgress", "message": "Another operation on this resource is in progress."}


def _etag_mismatch():
    return {"code": "PreconditionFailedEtagMismatch", "message": "Etag provided in if-match header does not match."}


def serve(stand_in):
    """Serve it on loopback; the server."""

    class Answering(Handler):
        def _answer(self):
            answer = send(stand_in, self.command, self.path, self.headers, self.content())
            pause = {"Retry-After": str(answer.pause)} if answer.pause else {}
            self.reply(answer.status, answer.body, {"Content-Type": "application/json", **pause})

        do_GET = do_PUT = do_POST = _answer

    return WebServer(Answering)


def environment(stand_in):
    """The environment of a run of Ansible that meets the served stand-in instead of Azure."""
    return {
        "ANSIBLE_CALLBACKS_ENABLED": "record_results,azure_on_loopback",
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([str(COLLECTIONS), os.environ["ANSIBLE_COLLECTIONS_PATH"]]),
        "ARM_STAND_IN": stand_in.url,
        "ARM_TOKEN": TOKEN,
    }


def send(stand_in, method, url, headers, data):
    """The answer to a request. Without the token there is none of a resource."""
    if headers.get("Authorization") != f"Bearer {TOKEN}":
        return Answer(401, 0, b'{"error": {"code": "AuthenticationFailed", "message": "The token is wrong."}}')
    parts = urllib.parse.urlsplit(url)
    stand_in.versions += urllib.parse.parse_qs(parts.query)["api-version"]
    body = json.loads(data or b"null")
    if body and "/virtualmachinescalesets/" in parts.path.lower():
        body["etag"] = headers.get("If-Match")
    status, body = stand_in.handle(method, parts.path, body)
    content = json.dumps(body).encode()
    pause = re.search(r"after '(\d+)' seconds", content.decode())
    return Answer(status, int(pause[1]) if status == 429 and pause else 0, content)
