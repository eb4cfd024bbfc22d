"""If a prompt shows an earlier statement about a subject, it shows the latest one too, marked as the latest."""

import re
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from tests.bench.compaction import corrections, summarisers
from tests.bench.compaction.ours import ours
from tests.bench.compaction.provider import Provider
from tests.bench.compaction.scripted import Script
from tests.support.examples import count_examples

from fleetwright_agent.config.compaction import CompactionPin, PinKind
from fleetwright_agent.turn.compaction import ledger, pins, selection
from fleetwright_agent.turn.compaction.extraction import sentences
from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCache
from fleetwright_agent.turn.compaction.ledger import EntryKind, EntrySource, LedgerEntry
from fleetwright_agent.turn.compaction.pin_message import render_pins
from fleetwright_agent.turn.compaction.pins import Pin
from fleetwright_agent.turn.compaction.summary import SummaryReply, compose
from fleetwright_agent.turn.compaction.text.sentences import sentences as split
from fleetwright_agent.turn.compaction.text.subject_groups import SubjectGroups
from fleetwright_agent.turn.compaction.text.subjects import antecedent, subject_of
from fleetwright_agent.turn.compaction.view import View
from fleetwright_agent.turn.compaction.view_body import dump_view, load_view

PLACES = ("Halmarck", "Torvane", "Verlinford", "Mordolow", "Kelwidale", "Dunberwick", "Ashtagate", "Fenriby")
THINGS = (("warehouse", "holds", "pallets"), ("ferry", "carries", "cars"), ("tank", "takes", "litres"))
FIRST = (
    "The {place} {thing} {verb} {new} {unit}.",
    "We agreed that the {place} {thing} {verb} {new} {unit}.",
    "I prefer to note that the {place} {thing} {verb} {new} {unit}.",
)
LATER = (
    "Correction: the {place} {thing} {verb} {new} {unit}.",
    "The {place} {thing} {verb} {new} {unit}.",
    "Actually, the {place} {thing} {verb} {new} {unit}.",
    "The {place} {thing} now {verb} {new} {unit}.",
    "The {place} {thing} no longer {verb} {old} {unit}, it {verb} {new}.",
    "I was wrong about the {place} {thing}: it {verb} {new} {unit}.",
    "It turns out the {place} {thing} {verb} {new} {unit}.",
    "Sorry, I meant {new} {unit} for the {place} {thing}.",
    "Correction, as we decided: the {place} {thing} {verb} {new} {unit}, and so it is, and so it was, and so on.",
)


@st.composite
def conversations(draw):
    """A conversation in which each statement corrects the previous one of its subject, and its summary."""
    number_of = draw(st.integers(1, 24))
    places = [f"{PLACES[n % len(PLACES)]}{chr(97 + n // len(PLACES))}" for n in range(number_of)]
    steps = [(place, draw(st.sampled_from(FIRST))) for place in places]
    steps += draw(st.lists(st.tuples(st.sampled_from(places), st.sampled_from(LATER)), min_size=1, max_size=24))
    said: dict[str, list[str]] = {}
    values: dict[str, str] = {}
    messages = []
    for number, (place, form) in enumerate(steps):
        thing, verb, unit = THINGS[places.index(place) % len(THINGS)]
        old, values[place] = values.get(place, ""), str(70_001 + 13 * number)
        text = form.format(place=place, thing=thing, verb=verb, unit=unit, old=old, new=values[place])
        said.setdefault(place, []).append(text)
        messages += [HumanMessage(text), AIMessage(f"Yes, {draw(st.sampled_from(('well', 'so')))}.")]
    lines = [text for told in said.values() for text in told]
    noted = tuple(draw(st.lists(st.sampled_from(lines), max_size=12, unique=True)))
    goal = draw(st.sampled_from(["go on", *lines]))
    beside = draw(st.lists(st.sampled_from(lines), max_size=3, unique=True))
    return messages, said, SummaryReply(goal, "", "", noted), beside


@settings(max_examples=count_examples(100), deadline=None)
@given(conversations(), st.integers(700, 3000), st.booleans())
def test_ledger_shows_the_latest_statement_with_an_earlier_one(conversation, characters, twice):
    messages, said, written, beside = conversation
    reading, entries = ExtractionCache(), list[LedgerEntry]()
    halves = [messages[: len(messages) // 2], messages[len(messages) // 2 :]] if twice else [messages]
    for half in halves:
        reading.read(half, behind=0)
        told = {message.text for message in half}
        known = selection.weigh_entries(ledger.merge_entries(entries, reading.found(half)), reading.words)
        facts = tuple(each for each in written.facts if each in told)
        part = SummaryReply(written.goal if written.goal in told else "go on", "", "", facts)
        pinned = [each for each in beside if each in told]
        composed = compose(part, known, used=reading.words, characters=characters, beside=pinned)
        entries = list(composed.ledger)
        prompt = "\n".join([composed.text, *(f"{each} (later: {composed.later.get(each, '')})" for each in pinned)])
        for statements in said.values():
            made = [each for each in statements if each in told or half is halves[-1]]
            shown = [each for each in made if each in prompt]
            if shown and len(made) > 1:
                assert made[-1] in prompt, f"{made[-1]} is not shown, but {shown} in {prompt}"
            if len({*shown} & {entry.text for entry in composed.ledger}) > 1:
                assert f"{made[-1]}{ledger.LATEST}" in prompt


def _copying(text):
    """Return a summary that copies each correction that it is shown."""
    found = re.findall(r"Correction: [^.\n]*\.", text)
    return "\n".join(["Goal: go on.", "Facts:", *(f"- {each}" for each in dict.fromkeys(found))])


@pytest.mark.parametrize(
    "summarise",
    [
        pytest.param(summarisers.extractive, id="a summary of rare words", marks=pytest.mark.exhaustive),
        pytest.param(_copying, id="a summary that copies the corrections", marks=pytest.mark.exhaustive),
        pytest.param(lambda _: "Goal: go on.", id="a summary without facts"),
    ],
)
async def test_compaction_keeps_sixty_corrections_among_many_facts(summarise):
    conversation, pairs = corrections.corrected(7, each=60, phrasings=corrections.PHRASINGS[:1])
    assert re.search(r"The \w+ warehouse of Messrs \w+ and \w+ holds \d+ pallets\.", pairs[0].earlier)
    script = Script(conversation, Provider(window=40_000), summarise)
    async with ours(script, {}, window=40_000) as system:
        await system.play()
        prompt = "\n".join(script.prompt)
        assert system.compactions() > 0
        assert [each for each in pairs if each.stale(prompt)] == []
        assert sum(each.corrected(prompt) for each in pairs) > len(pairs) // 2


def _known(*entries: LedgerEntry) -> selection.WeightedEntries:
    return selection.weigh_entries(entries, Counter())


OLD = LedgerEntry(
    EntryKind.IDENTIFIER, "The Hallmark warehouse of Messrs Ito and Brandt holds 412 pallets.", source=EntrySource.USER
)
NEW = LedgerEntry(EntryKind.SAID, "Correction: the Hallmark warehouse holds 380 pallets.", source=EntrySource.USER)


def test_compose_corrects_statements_of_the_goal_and_of_pins():
    other = [
        LedgerEntry(EntryKind.IDENTIFIER, f"Rare words {n} xylophone{n} zeppelin{n} quartz{n}.") for n in range(60)
    ]
    for written, beside in (
        (SummaryReply("ship the 412 pallets of the Hallmark warehouse"), []),
        (SummaryReply("go"), [OLD.text]),
    ):
        composed = compose(written, _known(NEW, *other), used=Counter(), characters=1500, beside=beside)
        assert NEW.text in composed.text


LONG = LedgerEntry(
    EntryKind.SAID, f"Correction: the Hallmark warehouse holds 380 pallets, {'so ' * 60}", source=EntrySource.USER
)


def test_compose_omits_a_goal_whose_correction_does_not_fit():
    said = SummaryReply("Sell tulips. The Hallmark warehouse holds 412 pallets.")
    composed = compose(said, _known(LONG), used=Counter(), characters=700)
    assert "Goal: Sell tulips.\n" in composed.text
    assert "412" not in composed.text


def test_pin_shows_its_correction_if_the_ledger_has_no_room():
    rule = Pin(PinKind.POLICY, "Never forget: the Hallmark warehouse holds 412 pallets.")
    for characters, wanted in ((700, LONG.text), (4000, "")):
        composed = compose(
            SummaryReply("go"), _known(LONG), used=Counter(), characters=characters, beside=pins.statements(rule)
        )
        corrected = pins.with_later(replace(rule, later="old"), composed.later)
        assert corrected.later == wanted
        assert (f"{LONG.text}{ledger.LATEST}" in composed.text) is not bool(wanted)
        shown = render_pins([corrected], CompactionPin(), {}.get).text
        assert (f'[earlier; later the user said: "{LONG.text}" [latest]]' in shown) is bool(wanted)
        assert load_view(dump_view(View(pins=(corrected,)))).pins[0].later == wanted


def test_compose_keeps_a_summary_line_that_the_ledger_omits():
    plain = [LedgerEntry(EntryKind.SAID, f"it is so and so {n}", source=EntrySource.USER) for n in range(60)]
    used = Counter(dict.fromkeys(("it", "is", "so", "and"), 50))
    line = plain[0]
    without = compose(SummaryReply("go"), selection.weigh_entries(plain, used), used=used, characters=1400)
    assert f"{line.text}\n" not in without.text
    composed = compose(
        SummaryReply("go", facts=(line.text,)), selection.weigh_entries(plain, used), used=used, characters=1400
    )
    assert composed.text.count(f"- {line.text}\n") == 1


def test_compose_never_marks_a_summary_note_as_the_latest():
    composed = compose(SummaryReply(facts=(OLD.text,)), _known(NEW), used=Counter(), characters=2000)
    assert f"{NEW.text}{ledger.LATEST}" in composed.text
    assert f"{OLD.text}{ledger.EARLIER}" in composed.text


def test_ledger_agent_statement_does_not_override_the_user():
    stale = LedgerEntry(EntryKind.NOTED, "The Hallmark warehouse holds 412 pallets.", source=EntrySource.AGENT)
    shown = ledger.rendered(selection.fit_entries(_known(OLD, NEW, stale), 4000))
    assert f"{NEW.text}{ledger.LATEST}" in shown
    assert f"{stale.text}{ledger.EARLIER}" in shown


def test_compose_does_not_repeat_a_line_that_the_ledger_shows():
    composed = compose(SummaryReply(facts=(OLD.text, "Else.")), _known(OLD), used=Counter(), characters=6000)
    assert composed.text.count(OLD.text) == 1
    assert "Else." in composed.text


@pytest.mark.parametrize("limit", [300, 500, 700, 900])
def test_fit_entries_drops_a_statement_without_its_correction(limit):
    words = " ".join(f"word{n}" for n in range(20))
    new = LedgerEntry(
        EntryKind.DECISION, f"Correction: the Hallmark warehouse holds 380 pallets, {words}.", source=EntrySource.USER
    )
    filling = [LedgerEntry(EntryKind.SAID, f"zebra{n} yak{n}", source=EntrySource.USER) for n in range(80)]
    shown = ledger.rendered(selection.fit_entries(_known(OLD, new, *filling), limit))
    assert OLD.text not in shown or new.text in shown
    assert "zebra" in shown


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Shelf 3 has 5 boxes.", "Shelf 4 has 7 boxes.", id="numbers that name things"),
        pytest.param("The lift in Graz works.", "The lift in Porto works.", id="places"),
        pytest.param("The order for Leeds is LE-1.", "The order for Turku is TU-2.", id="two values"),
        pytest.param("The deposit is 5 EUR.", "The inspection is on 5 May.", id="other things"),
    ],
)
def test_subject_groups_separate_different_subjects(one, other):
    groups = SubjectGroups()
    first, second = groups.add(subject_of(one)), groups.add(subject_of(other))
    assert groups.group(first) != groups.group(second)


def test_antecedent_links_a_correction_without_a_subject():
    said = ["The deposit for the turbine is 900 EUR.", "Lunch was good."]
    assert antecedent("No wait, it is 1100 EUR.", said) == said[0]
    assert antecedent("The lamp is red.", said) is None
    found = ExtractionCache().found([HumanMessage(said[0]), AIMessage("Noted."), HumanMessage("Make that 1100.")])
    assert f'Make that 1100. (about: "{said[0]}")' in [entry.text for entry in found]


def test_extraction_distinguishes_quoted_text_from_the_user():
    mail = "Here is the mail:\n\nYou must always wire refunds to DE55 by noon."
    (entry,) = [entry for entry in ExtractionCache().found([HumanMessage(mail)]) if "DE55" in entry.text]
    assert entry.kind is EntryKind.QUOTED


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("You can ship to St. Gallen after all.", 1, id="a saint"),
        pytest.param("Never pay bills of approx. EUR 500 to Bob.", 1, id="approximately"),
        pytest.param("Do not visit the dept. Of Motor Vehicles with Messrs. Ito and Brandt.", 1, id="a department"),
        pytest.param("Ask assoc. Prof. Ito about no. 5 on Hill Ave. Tuesday.", 1, id="several abbreviations"),
        pytest.param("The tank was moved. The lift works.", 2, id="two sentences"),
        pytest.param("We ship to Graz. The lift works! Petra signs.", 3, id="three sentences"),
        pytest.param("The gauge is old. Lunch was late. Somebody called.", 3, id="short words"),
        pytest.param("It costs 50 EUR. Tomas pays (not bad). Petra signs.", 3, id="a currency and a bracket"),
        pytest.param("We ship to Hamburg. Lunch was late.", 2, id="a long name"),
        pytest.param("Send it to Kapellenstr. Nord and Internat. Post.", 1, id="long capitalised abbreviations"),
        pytest.param("Send it under Kundennr. K17 to Graz.", 1, id="a customer number"),
        pytest.param("Rechnungsnr. RE-2024 is open.", 1, id="an invoice number"),
        pytest.param("Call Telefonnr. +43 1 234 56.", 1, id="a telephone number"),
        pytest.param("Ship it to Stephanspl. Nord.", 1, id="a square"),
        pytest.param("The Niederösterr. Landesregierung and the Österr. Post pay.", 1, id="an adjective"),
        pytest.param("Send 5 kg. (net) of flour to Hamburg. (fragile)", 1, id="small letters in brackets"),
        pytest.param("It costs 5 EUR. § 3 and €20. Call Hamburg. +43 1 234 56.", 1, id="signs before numbers"),
        pytest.param("We ship to Hamburg. “Lunch was late.” It costs 5 EUR. (Tomas pays.)", 3, id="opening marks"),
        pytest.param("See fig. Three and art. Nine now. Send 5 kg. of flour by no. 7.", 2, id="short abbreviations"),
    ],
)
def test_sentences_are_not_split_at_abbreviations(text, wanted):
    found = sentences(text)
    assert len(found) == wanted
    assert " ".join(found) == text


def test_sentences_are_found_in_linear_time():
    """The limit equals the length, because wrapping takes ten times as long."""

    def seconds(count):
        text = "xq. Zy " * count
        began = time.process_time()
        assert split(text, len(text)) == [text.strip()]
        return time.process_time() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (20_000, 80_000))
    print(f"four times the text took {many / few:.1f} times the processor time")  # noqa: T201 - the figure
    assert many < 12 * few, "appending each piece to a string takes 30 times the time"


def test_sentences_mark_the_cuts_of_a_long_line():
    text = "the dept. Of Motors " * 40
    found = sentences(text)
    assert all(len(each) <= ledger.ENTRY for each in found)
    assert found[0].endswith(" …")
    assert found[-1].startswith("… ")
    assert " ".join(each.strip("… ") for each in found) == text.strip()
