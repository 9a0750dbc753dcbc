"""Student's t distribution. The one module that knows scipy, which is imported at the first use."""


def t_quantile(probability: float, df: float) -> float:
    """Return the value below which a share of Student's t lies. Shapes: 0 < probability < 1, df > 0."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def t_share_below(value: float, df: float) -> float:
    """Return the share of Student's t below a value."""
    from scipy.special import stdtr

    return float(stdtr(df, value))
