# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Common code of the action plugins for Azure. Private to the collection."""

from __future__ import annotations

import contextlib
import math
import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from .._ansible.other_host import OtherHost, OtherHostError, limited
from .arm import CLOUDS, Arm, ArmAnswer, ArmError, Token, send

LOGIN = "azure.azcollection.azure_rm_accesstoken_info"
ANSWERS_WITHIN = 300.0  # seconds for one request
LEAST_FOR_TOKEN, LEAST_FOR_ANSWER = 60.0, 10.0  # seconds, also with an operation_timeout of less


class ArmAction(ActionBase):
    """An action that talks to Azure Resource Manager."""

    def _require_azcollection(self) -> None:
        """Refuse to go on without azure.azcollection.

        :raises AnsibleActionFail: it says how to install it.
        """
        if not self._shared_loader_obj.module_loader.find_plugin(LOGIN):
            raise AnsibleActionFail(
                "the collection azure.azcollection is not installed on the control node. Install it with "
                '"ansible-galaxy collection install azure.azcollection", and the Python packages that it needs'
            )

    @contextlib.contextmanager
    def _arm(
        self,
        arguments: t.Mapping[str, t.Any],
        variables: dict[str, t.Any],
        left: t.Callable[[], float] = lambda: math.inf,
    ) -> t.Iterator[Arm]:
        """Azure Resource Manager, with a token that ``control_node`` gets.

        :param left: the seconds after which nothing may be sent any more.
        :raises ArmError: also without a token, and if the options are wrong.
        """
        self._require_azcollection()
        patience: float = max(0.0, arguments["operation_timeout"])
        credentials = arguments["credentials"]
        cloud = credentials.get("cloud_environment") or os.environ.get("AZURE_CLOUD_ENVIRONMENT") or "AzureCloud"
        if cloud not in CLOUDS:
            raise ArmError(f"cloud_environment is {cloud}, expected {', '.join(CLOUDS)}. Give one of these")

        def within(least: float) -> float:
            return min(ANSWERS_WITHIN, max(least, patience), left())

        def token(subscription: str) -> Token:
            options = {"subscription_id": subscription, **credentials, "scopes": [f"{CLOUDS[cloud]}/.default"]}
            try:
                answer = control_node.run(LOGIN, options, within=max(1.0, within(LEAST_FOR_TOKEN)))
            except OtherHostError as error:
                raise ArmError(str(error)) from error
            text = answer["access_token"].strip()  # a header with a line end is refused with a text that shows it
            if not text:
                raise ArmError(f"{LOGIN} gave an empty token. Check the identity of the control node, and run it again")
            return Token(text, float(answer["expires_on"]))

        def send_in_time(*request: t.Any) -> ArmAnswer:
            seconds = within(LEAST_FOR_ANSWER)
            if seconds <= 0:
                raise TimeoutError("no time is left to send it")
            with limited(self._task, seconds):
                return send(*request, timeout=seconds)

        try:
            control_node = OtherHost(self, arguments["control_node"], variables, become=False, is_secret=True)
        except OtherHostError as error:
            raise ArmError(str(error)) from error
        try:
            yield Arm(CLOUDS[cloud], token, send_in_time, patience=patience, left=left)
        finally:
            control_node.close()
