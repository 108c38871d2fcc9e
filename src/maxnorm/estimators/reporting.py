"""Reports on fitted estimators, as a page and in notebooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from maxnorm.files import check_replaceable, replacing


class ReportMixin:
    """Estimators that write a report and say in notebooks what they have found."""

    def report(self, path: str | os.PathLike[str], X: Any = None, *, overwrite: bool = False) -> None:
        """Write a report on the model to an HTML page, which needs no other file and no network.

        It shows the parameters, the components, the noise of the features and the changes of the stream. With
        X it also shows where the gross errors are, the features and samples most affected, and the worst
        samples before and after.

        Parameters
        ----------
        path : path-like
            The file to write, for example ``report.html``.
        X : array, data frame, sparse matrix, Dask collection or Stream, default=None
            Samples in rows. They are read once, in batches, so that memory does not grow with their number.
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
            raise FileExistsError(f"{target} already exists; pass overwrite=True to replace it")
        check_replaceable(target)
        page = make_model_report(self, X)
        with replacing(target) as part:
            part.write_text(page, encoding="utf-8", errors="replace")

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._found_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._found_html()
        return bundle

    def _found_html(self) -> str:
        """Return a table of what was found, which is empty for an estimator that is not fitted."""
        from maxnorm.report import summary_html

        return summary_html(self) if hasattr(self, "n_features_in_") else ""
