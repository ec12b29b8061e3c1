"""A Ray cluster on this machine, bound to the loopback device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ONE_PROCESSOR = {
    "num_cpus": 1,
    "object_store_memory": 80 * 1024**2,
    "node_ip_address": "127.0.0.1",
    "include_dashboard": False,
}


@contextmanager
def local_cluster(processors: int = 1) -> Iterator[Any]:
    """A cluster of one node; `add_node(**ONE_PROCESSOR)` adds another."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_worker_niceness", "0")  # or the other tests would leave its workers no time
        patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)  # or it would look beyond 127.0.0.1
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=ONE_PROCESSOR | {"num_cpus": processors})
        try:
            yield made
        finally:
            made.shutdown()
