"""How messages count things."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 pair", "2 pairs" or "12,000 pairs".

    Args:
        plural: where it is more than the noun with an s.
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"
