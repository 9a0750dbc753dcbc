"""Ordinary least squares for a handful of coefficients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

SINGULAR = 1e-9


@dataclass(frozen=True)
class Fit:
    """A fitted model. Shapes: ``coefficients`` and ``errors`` (standard errors) in the order of the design's columns.

    ``df`` residual degrees of freedom; ``spread`` the residual standard deviation.
    """

    coefficients: tuple[float, ...]
    errors: tuple[float, ...]
    residuals: tuple[float, ...]
    df: int
    spread: float


def fit(design: Sequence[Sequence[float]], values: Sequence[float]) -> Fit | None:
    """Fit ``values`` by the columns of ``design``.

    None when there is no residual degree of freedom or the columns cannot be told apart: then no coefficient has a
    known error.
    """
    import numpy as np

    matrix = np.asarray(design, dtype=float)
    df = len(values) - matrix.shape[1]
    if df < 1:
        return None
    scale = np.linalg.norm(matrix, axis=0)
    if not np.all(scale > 0):
        return None
    q, r = np.linalg.qr(matrix / scale)
    if min(abs(np.diag(r))) < SINGULAR:
        return None
    inverse = np.linalg.inv(r)
    target = np.asarray(values, dtype=float)
    coefficients = inverse @ (q.T @ target) / scale
    residuals = target - matrix @ coefficients
    spread = math.sqrt(float(residuals @ residuals) / df)
    errors = spread * np.linalg.norm(inverse, axis=1) / scale
    return Fit(tuple(map(float, coefficients)), tuple(map(float, errors)), tuple(map(float, residuals)), df, spread)
