# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send what is meant for Azure Resource Manager to the stand-in at ARM_STAND_IN."""

import os

from ansible.module_utils import urls
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: azure_on_loopback
type: notification
short_description: Send what is meant for Azure Resource Manager to a stand-in
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description: For the tests of what talks to Azure. Each task inherits the change from the main process.
"""
AZURE = "https://management.azure.com/"


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "azure_on_loopback"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        open_url = urls.open_url

        def open_on_loopback(url, **options):
            if not url.startswith(AZURE):
                return open_url(url, **options)
            return open_url(f"{os.environ['ARM_STAND_IN']}/{url[len(AZURE) :]}", use_proxy=False, **options)

        urls.open_url = open_on_loopback
