"""Splits text into statements, and cuts text that is too long. Pure.

A full stop often ends an abbreviation. The words next to a full stop decide: if they leave a doubt, the line is not
split there. A cut of a long line is between two words, and an ellipsis marks it.
"""

import re
import textwrap
from typing import Final


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_LINE: Final = re.compile(r"\n+")
_BREAK: Final = re.compile(r"(?<=[.!?])\s+")
_LONG_WORD: Final = re.compile(r"(?=\w*[aeiouyäöüéèáíóú])[^\W\d_A-Z]{5,}$")
_LONG_CODE: Final = re.compile(r"(?=\S*\d)[\w:/#.,-]{4,}$")
_ABBREVIATIONS: Final = _words(
    "abbrev approx assoc assocs attrib avail capit categ contd coord corresp depts descr distr einschl elect encyc",
    "equip equiv estab estim excerpt figur geogr ident illus illustr incorp insbes introd maint manuf mathem messrs",
    "natl ordin origin param paras pharm philos prelim previ princ probab publ recomm regis resid respec secre",
    "sogen statist suppl techn telef transl treas univers urspr vergl zuzgl",
)
"""Abbreviations of five and more small letters. Shorter words count as possible abbreviations in any case."""
_FUNCTION: Final = _words(
    "about above after again all also am and any are at away back be been bill but by can cash day days did do",
    "does done door down each else ever few for from go gone good got had hall hand has have he her here hers",
    "him his how if in is it its just keys last less let lift list long look made many me mine more most much",
    "near need next noon not note now nuts of off ok okay on once one only onto open or our ours out over own",
    "rain said same say see seen she so some soon stay such sure take than that the them then they this thus",
    "till time to told too took true try two up upon us very was way we well went were what when who whom why",
    "will with work yes yet you your",
)
"""Short words that are not abbreviations."""
_OPENERS: Final = _words(
    "Actually After Also Although Always And Are At Because Before But Can Correction Could Did Do Does Don't",
    "For From He Her Here His How However I'd I'll I'm I've If In Is It It's Its My Never Now Ok Okay On Or",
    "Our Please She Should Since So Sorry Thanks That The Their Then There These They This Those To Was We",
    "Were What When Where While Who Why With Without Would Yes You Your",
)
"""Words that begin a sentence if they are capitalised after a full stop."""
_TITLES: Final = _words(
    "art dr messrs mr mrs ms no nos prof st vs",
)


def sentences(text: str, limit: int) -> list[str]:
    """Return the lines of a text, split at certain sentence ends, each with at most `limit` characters."""
    return [piece for line in _LINE.split(text) for part in _split(line) for piece in _pieces(part, limit)]


def _split(line: str) -> list[str]:
    parts: list[str] = []
    doubtful = False
    for part in _BREAK.split(line):
        if not (said := " ".join(part.split())):
            continue
        if doubtful and not _begins(said, parts[-1]):
            parts[-1] += f" {said}"
        else:
            parts.append(said)
        doubtful = not _ends(said)
    return parts


def _ends(said: str) -> bool:
    """Return True if the end of a text certainly ends a sentence."""
    # An expression for the last word would try every character of a long word, which takes seconds for 50,000.
    before = said[:-1]
    if not said.endswith(".") or not before or before[-1].isspace():
        return True
    word = before.rsplit(None, 1)[-1].strip("()[]\"'“”’*_")
    if word in _FUNCTION or _LONG_CODE.match(word):
        return True
    return _LONG_WORD.match(word) is not None and word not in _ABBREVIATIONS


def _begins(said: str, before: str) -> bool:
    """Return True if a text certainly begins a sentence after the text before it."""
    last = before.rsplit(None, 1)[-1].strip(".()\"'").casefold()
    return said.split(None, 1)[0].rstrip(",:;.!?") in _OPENERS and last not in _TITLES


def _pieces(part: str, limit: int) -> list[str]:
    # Skip wrapping where possible: it takes ten times as long as finding the sentences.
    if len(part) <= limit:
        return [part]
    first, *others = textwrap.wrap(part, limit - 2 * len(_CUT), break_on_hyphens=False)
    return [f"{first}{_CUT}", *(f"… {each}{_CUT}" for each in others[:-1]), *(f"… {each}" for each in others[-1:])]


_CUT: Final = " …"


def excerpt(text: str, begin: int, limit: int) -> tuple[str, int]:
    """Return the words of a text from about this index on, with ellipses at cuts, and the index of the end."""
    begin = 0 if begin <= 0 else text.find(" ", begin) + 1
    end = begin + limit
    if end < len(text):
        space = text.rfind(" ", begin, end + 1)
        end = space if space > begin else end
    head, tail = "… " if begin else "", _CUT if end < len(text) else ""
    return f"{head}{text[begin:end].strip()}{tail}", end
