"""The table of phases, which is computed from the output of watches."""

import json

from e2e.scenarios.phases import first_seen, table, words

SIGHTINGS = [
    (0.30, "pods", "exists PodScheduled \n"),
    (0.05, "deployments", "exists\n"),
    (0.20, "pods", "exists \n"),
    (1.90, "pods", "exists PodScheduled PodReadyToStartContainers Ready started \n"),
    (2.00, "agents", "Accepted ReferencesResolved Programmed Available Ready \n"),
    (2.10, "agents", "Ready \n"),
    (0.06, "agents", "Accepted Programmed \n"),
]


def test_first_seen_returns_the_first_sighting_of_each_phase():
    found = first_seen(SIGHTINGS)
    assert list(found.values()) == [0.05, 0.2, 0.3, 1.9, 1.9, 1.9, 2.0]
    assert table(found).splitlines()[0] == "  0.05 s   +0.05 s  the operator wrote the Deployment"
    assert table(found).splitlines()[-1] == "  2.00 s   +0.10 s  the operator says that the Agent is Ready"


def test_words_lists_true_conditions_and_started_containers():
    assert words("") == "exists"
    status = {
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [{"started": True}],
    }
    assert words(json.dumps(status)) == "exists PodScheduled started"
