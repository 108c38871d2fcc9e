"""Pictures of models, samples and fits, drawn with matplotlib (extra ``plot``).

Every function draws one picture and returns its display. A display has the data of the picture as attributes,
the method ``plot`` to draw it again, and ``figure_`` with ``ax_`` or ``axes_``, as in scikit-learn.
"""

from maxnorm.plot.basis import ComponentsDisplay, ScreeDisplay, components, scree
from maxnorm.plot.history import ConvergenceDisplay, convergence
from maxnorm.plot.samples import (
    BeforeAfterDisplay,
    NoiseDisplay,
    ScoresDisplay,
    before_after,
    noise,
    scores,
)

__all__ = [
    "BeforeAfterDisplay",
    "ComponentsDisplay",
    "ConvergenceDisplay",
    "NoiseDisplay",
    "ScoresDisplay",
    "ScreeDisplay",
    "before_after",
    "components",
    "convergence",
    "noise",
    "scores",
    "scree",
]
