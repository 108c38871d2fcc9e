"""Reports on fitted estimators, as a page and in notebooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxnorm.files import check_replaceable, replacing


class ReportMixin:
    """Estimators that write a report and say in notebooks what they have found."""

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        *,
        feature_shape: tuple[int, ...] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write a report on the model to an HTML page, which needs no other file and no network.

        It shows what was found, the components and the parameters. With X it also shows what the model finds
        in these samples: for a decomposition, a completion or an anomaly detector where the gross errors are,
        and the features and samples most affected; for a detector also the scores and the anomalous rows.

        Parameters
        ----------
        path : path-like
            The file to write, for example ``report.html``.
        X : array, data frame, sparse matrix, Dask collection or Stream, default=None
            Samples in rows. They are read once, in batches, so that memory does not grow with their number.
            :class:`SeriesImputer` takes an array or a data frame; the reports on :class:`Recommender` and
            :class:`VideoBackground` show no samples.
        feature_shape : tuple of int, default=None
            Shape of a sample, for example ``(64, 64)``, if samples are images. None means the shape of the
            samples if X is an array of images.
        overwrite : bool, default=False
            Whether to replace a file that already exists.

        Raises
        ------
        FileExistsError
            If the file exists and ``overwrite`` is False.
        """
        from maxnorm.report import make_model_report

        target = Path(path)
        if target.exists() and not overwrite:
            raise FileExistsError(
                f"{target} already exists, and a report replaces no file unasked: pass overwrite=True, for "
                "example in a notebook cell that is run more than once, or another name"
            )
        check_replaceable(target)
        page = make_model_report(self, X, feature_shape)
        with replacing(target) as part:
            part.write_text(page, encoding="utf-8", errors="replace")

    def _get_params_html(self, *args: Any, **kwargs: Any) -> ParametersAndSummary:
        # scikit-learn from 1.7 on shows this for estimators on their own and within pipelines.
        return ParametersAndSummary(super()._get_params_html(*args, **kwargs), self._found_html())  # type: ignore[misc]

    def _repr_html_inner(self) -> str:
        return self._with_summary(str(super()._repr_html_inner()))  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._with_summary(bundle["text/html"])
        return bundle

    def _with_summary(self, html: str) -> str:
        """Return a representation with the table of what was found, unless it has it already."""
        found = self._found_html()
        return html if found in html else html + found

    def _found_html(self) -> str:
        """Return a table of what was found, which is empty for an estimator that is not fitted."""
        from maxnorm.report import summary_html

        try:
            check_is_fitted(self)
        except NotFittedError:
            return ""
        return summary_html(self)


class ParametersAndSummary:
    """The parameters of an estimator and what it has found, in the HTML of scikit-learn.

    Parameters
    ----------
    parameters : object
        The representation of the parameters by scikit-learn.
    summary : str
        The table of what was found.
    """

    def __init__(self, parameters: Any, summary: str) -> None:
        self.parameters = parameters
        self.summary = summary

    def _repr_html_inner(self) -> str:
        return self.summary + str(self.parameters._repr_html_inner())
