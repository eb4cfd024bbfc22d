"""Kubernetes quantities of CPU and memory as comparable numbers. Pure."""

_FACTORS = {
    **{unit: 1000.0**power for power, unit in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), start=-3)},
    **{unit: 1024.0**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}


def parse_quantity(quantity: str | float) -> float:
    """Return a quantity as a number: `100m` is 0.1 and `64Mi` is 67108864.

    Raises:
        ValueError: The text is not a quantity.
    """
    text = str(quantity)
    unit = next((unit for unit in (text[-2:], text[-1:]) if unit in _FACTORS), "")
    return float(text.removesuffix(unit)) * _FACTORS[unit]
