"""What methods with earlier stages have in common."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress


class Staged(Method):
    """A method whose earlier stages each train a network of their own, which stands still afterwards.

    The parameters of a stage are the group of its name; the main stage moves all that belong to no earlier one. Their
    `loss` looks at `progress.stage`.
    """

    def stage_networks(self) -> dict[str, nn.Module]:
        """The network that each earlier stage trains."""
        raise NotImplementedError

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        groups = {stage: list(network.parameters()) for stage, network in self.stage_networks().items()}
        earlier = {parameter for group in groups.values() for parameter in group}
        return groups | {"main": [parameter for parameter in self.parameters() if parameter not in earlier]}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        yield progress.stage, self.loss(batch, progress)
