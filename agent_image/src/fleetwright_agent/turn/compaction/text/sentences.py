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
_LONG_NAME: Final = re.compile(r"(?=\w*[aeiouyäöüéèáíóú])[A-ZÄÖÜÉ][^\W\d_A-Z]{6,}$")
_SHORTENED: Final = tuple(_words("abt anw bez dir ger ges gesch min nr pl reg str verw österr"))
"""The ends of long capitalised abbreviations, such as "Kapellenstr." and "Kundennr."."""
_OPENING: Final = "([{\"'“”„‘’‚«»‹›*_¿¡`"
"""Quotation marks, brackets and marks of emphasis before the first word of a sentence."""
_LONG_CODE: Final = re.compile(r"(?=\S*\d)[\w:/#.,-]{4,}$")
_ABBREVIATIONS: Final = _words(
    "abbrev approx assoc assocs attrib avail capit categ contd coord corresp depts descr distr einschl elect encyc",
    "equip equiv estab estim excerpt figur geogr ident illus illustr incorp insbes internat introd maint manuf mathem",
    "messrs natl ordin origin param paras pharm philos prelim previ princ probab publ recomm regis resid respec secre",
    "sogen statist superint suppl techn telef transl treas univers urspr vergl zuzgl österr",
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
_COMMON: Final = _words(
    "able ache aged ages ago aid aim air area arm arms army ash ask asks ate axe axis baby bad bag bags bake ball",
    "band bank bare bark barn base bath beam bean bear beat bed beds bee beef beer bell belt bend bent best bet bid",
    "big bike bird bit bite blow blue boat body boil bold bolt bone book boot born boss both bow bowl box boy boys",
    "bug bugs bulb bull burn bus bush busy buy buys cage cake call calm came camp car card care cars case chat chef",
    "chip city clay clip club clue coal coat code coin cold come cook cool cope copy cord core cork corn cost crew",
    "crop cry cube cup cups cure cut cuts dad damp dare dark dash date dawn dead deaf deal dear debt deck deed deep",
    "deer deny desk die diet dig dirt dish disk dive dock dog dogs doll dose dot drag draw drew drop drum dry duck",
    "due dull dust duty ear earn ears ease easy eat eats edge egg eggs end ends euro even exit eye eyes face fact",
    "fade fail fair fake fall fame fan far farm fast fat fate fear feed feel feet fell felt file fill film find fine",
    "fire firm fish fit fits five fix flag flat flew flow fly foam fold folk food fool foot fork form four free frog",
    "fuel full fun fur gain game gap gaps gas gate gave gear get gets gift girl give glad glue goal goat goes gold",
    "golf grew grey grid grip grow guy hair half hang hard hat hate head heal heap hear heat heel held hell help hen",
    "hero hide high hill hint hire hit hits hold hole home hood hook hope horn host hot hour huge hunt hurt ice idea",
    "idle iron item jail jar jaw jet job jobs join joke jump jury keen keep kept key kick kid kids kill kind king",
    "kiss kit kite knee knew knob knot know lack lady lake lamp land lane late law lawn laws lay lazy lead leaf leak",
    "lean led left leg legs lend lens lid lie life like lime line link lion lip live load loan lock loop lose loss",
    "lost lot lots loud love low luck lump lung mad mail main male mall man map mark mask meal mean meat meet melt",
    "men menu mess met mice mild mile milk miss mist mix mood moon move mud mug myth nail name neck nest net new nice",
    "nine none nose nut oak odd oil old ones oven page paid pain pair pale palm park pass past path pay pays peak",
    "pear pen pens pet pick pie pig pile pill pin pine pink pipe pit plan play plot plug plus pole pond pool poor",
    "pork port pose post pot pots pour pump pure push put puts quit quiz race rack rag rail ran raw read real rear",
    "red rely rent rest rice rich ride ring ripe rise risk road roar rock rode role roll roof room root rope rose row",
    "rows rub rude rug ruin rule run runs rush rust sad safe sail sake sale salt sand sang save saw says scan scar",
    "sea seal seat seed seek seem sees self sell send sent set sets shed ship shoe shop shot show shut sick side sign",
    "silk sink site six size skin skip sky slip slow snow soap sock soft soil sold son song sons sort soul soup sour",
    "spin spot star step stop suit sum swim tail tale talk tall tank tap tape task taxi tea team tear tell ten tent",
    "test text thin tide tidy tie tile tin tiny tip tips tire toe tone tool top tops torn tour town toy trap tray",
    "tree trip tube tune turn twin type ugly unit urge use used user uses vast view visa vote wage wait wake walk",
    "wall want war warm warn wash wave wax weak wear web week wet wide wife wild win wind wine wing wins wipe wire",
    "wise wish woke wolf won wood wool word wore worn wrap yard year yell zero zone zoo",
    "cm kg km mm AUD CAD CHF CZK DKK EUR GB GBP JPY MB NOK PLN SEK TB USD",
)
"""Common short words, currencies and units that end a sentence if the next word is capitalised.

The list omits words that are also known abbreviations, such as "art.", "fig.", "mind.", "no." and "sat.".
"""
_OPENERS: Final = _words(
    "Actually After Again Also Although Always And Another Any Anyone Anything Are At Because Before But Can Can't",
    "Correction Could Couldn't Did Didn't Do Does Doesn't Don't During Each Either Else Enough Even Every Everybody",
    "Everyone Everything Few Finally For From Has Have Having He He'll He's Her Here Here's His How However I'd I'll",
    "I'm I've If In Instead Is It It'll It's Its Just Later Let Let's Many Maybe Meanwhile Most Much My Neither Never",
    "Nobody None Nothing Now Ok Okay On Once Only Or Otherwise Our Perhaps Please Same She She'll She's Should",
    "Shouldn't Since So Some Somebody Someone Something Sorry Still Such Thank Thanks That That's The Their Then",
    "There There's Therefore These They They're They've This Those Though Thus To Today Tomorrow Too Unless Until Was",
    "We We'd We'll We're We've Were What What's When Where Whether While Who Why With Without Won't Would Wouldn't",
    "Yes Yesterday You You'll You're You've Your",
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
    # Join the pieces of a statement once: appending each to a string takes quadratic time for a long line.
    pieces: list[str] = []
    for part in _BREAK.split(line):
        if not (said := " ".join(part.split())):
            continue
        if pieces and (_ends(pieces[-1]) or _begins(said, pieces[-1])):
            parts.append(" ".join(pieces))
            pieces = []
        pieces.append(said)
    return [*parts, " ".join(pieces)] if pieces else parts


def _ends(said: str) -> bool:
    """Return True if the end of a text certainly ends a sentence."""
    # An expression for the last word would try every character of a long word, which takes seconds for 50,000.
    before = said[:-1]
    if not said.endswith(".") or not before or before[-1].isspace():
        return True
    word = before.rsplit(None, 1)[-1].strip("()[]\"'“”’*_")
    if word in _FUNCTION or _LONG_CODE.match(word):
        return True
    return _LONG_WORD.match(word) is not None and word.casefold() not in _ABBREVIATIONS


def _begins(said: str, before: str) -> bool:
    """Return True if a text certainly begins a sentence after the text before it."""
    last = before.rsplit(None, 1)[-1].strip(".()[]\"'“”’*_")
    first = said.lstrip(_OPENING)[:1]
    # Scripts without upper case have no other sign of a beginning.
    if (last in _COMMON or _is_name(last)) and first.isalpha() and not first.islower():
        return True
    return said.split(None, 1)[0].rstrip(",:;.!?") in _OPENERS and last.casefold() not in _TITLES


def _is_name(word: str) -> bool:
    """Return True if a word is a capitalised word of at least seven letters that is no known abbreviation."""
    if _LONG_NAME.match(word) is None or word.endswith(_SHORTENED):
        return False
    return word.casefold() not in _ABBREVIATIONS


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
