# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.action import AzureBalancerAction
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._azure.resources import LoadBalancer


class ActionModule(AzureBalancerAction):
    PRODUCT = LoadBalancer
