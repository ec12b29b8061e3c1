"""MPHIL+: MPHIL with prototypes that are learned and a max readout, chosen on validation."""

from __future__ import annotations

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.methods.base import register
from mphil.methods.mphil import MPHIL
from mphil.nn.readout import Pooling, Readout
from mphil.task import Task


@register(
    "mphil+",
    paper="ours, after Multi-Prototype Hyperspherical Invariant Learning",
    search_space={
        "prototypes": [2, 3, 4, 5, 6],
        "separation": [0.01, 0.1, 1.0],
        "temperature": [0.05, 0.1, 0.2, 0.5, 1.0],
    },
    parallel=True,
)
class MPHILPlus(MPHIL):
    r"""MPHIL whose prototypes follow the gradient in place of the batch.

    .. math:: \mathcal L = \mathcal L_{\mathrm C} + \lambda\,\mathcal L_{\mathrm{PS}}
              + \beta\,\mathcal L_{\mathrm{IPM}}, \qquad
              \boldsymbol\mu^{(c)}_k = \mathbf m^{(c)}_k / \|\mathbf m^{(c)}_k\|

    :math:`\mathbf m` are parameters. The moving average of MPHIL adds the sum of a batch to each prototype, so that one
    of a class with many members jumps to its last batch. A maximum over nodes asks whether a pattern occurs, whatever
    the size of the graph around it. Both, and a tenth of the separation, were chosen on validation (suite `diagnosis`);
    equations, encoders and losses are MPHIL's.

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        prototypes: K, prototypes per class.
        keep: n, weights kept per sample and class; 0 keeps all.
        temperature: :math:`\tau`, shared by all three losses.
        matching: :math:`\beta`, weight of the matching loss.
        separation: :math:`\lambda`, weight of the separation loss.
        readout: how node features become one vector.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        prototypes: int = 3,
        keep: int = 1,
        temperature: float = 0.1,
        matching: float = 0.1,
        separation: float = 0.1,
        readout: Pooling = "max",
    ) -> None:
        if encoder.readout != "mean":
            raise UsageError(
                f"mphil+ has a readout of its own: set method.readout={encoder.readout}, not encoder.readout"
            )
        super().__init__(
            task,
            encoder,
            prototypes=prototypes,
            keep=keep,
            temperature=temperature,
            matching=matching,
            separation=separation,
            update="gradient",
        )
        self.pool = Readout(readout, encoder.width)
