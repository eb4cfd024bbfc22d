"""Letters of any length, from a fixed stock of sentences. Pure."""

from itertools import cycle

_SENTENCES = (
    "Dear customer,",
    "thank you for writing to us about your order.",
    "We are sorry that it did not arrive the way it should have.",
    "Our colleagues in the warehouse have checked the shelf, the box and the papers that left with the driver.",
    "They found that the parcel was packed well, and that the damage most likely happened on the road.",
    "You do not need to send anything back before we answer.",
    "Please keep the box for two weeks, because the carrier may want to see it.",
    "If you prefer a replacement, we can send one from the next delivery.",
    "If you prefer your money back, we return it to the account that you paid from.",
    "Either way you pay nothing for the transport.",
    "We have also written a note for the next shift, so that you do not have to explain it all again.",
    "Our shop is open from Monday to Saturday, and you can call us at any time between nine and six.",
    "A letter to the address above reaches us just as well.",
    "We hope that the rest of your furniture gives you pleasure for many years.",
)


def letter(length: int) -> str:
    """Return a letter of exactly `length` words, separated by single spaces."""
    found: list[str] = []
    for sentence in cycle(_SENTENCES):
        found += sentence.split()
        if len(found) >= length:
            return " ".join(found[:length])
    raise AssertionError("a cycle does not end")
