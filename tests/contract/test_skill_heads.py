"""The runtime and the operator have the same length limits for the fields of a SKILL.md."""

import pytest

from fleetwright_agent.commands.fetch.folder import read_folder
from fleetwright_agent.config.mounted_files import ConfigurationError
from fleetwright_api.skill_document import LONGEST_HEAD, InvalidSkill, read_head, read_skill

SHORT = "---\nname: haiku\ndescription: Writes haiku.\nnote: {}\n---"


def of(length: int) -> str:
    return SHORT.format("x" * (length - len(SHORT) + 2))


def test_skill_head_of_maximum_length_is_accepted_by_both(tmp_path):
    head = of(LONGEST_HEAD)
    (tmp_path / "SKILL.md").write_text(f"{head}\nThree lines.\n")
    assert read_head("haiku", read_folder(tmp_path).head, ["SKILL.md"]) == "Writes haiku."
    assert read_skill("haiku", {"SKILL.md": f"{head}\nThree lines.\n"}).description == "Writes haiku."


def test_skill_head_over_maximum_gets_the_same_error_from_both(tmp_path):
    text = f"{of(LONGEST_HEAD + 1)}\nThree lines.\n"
    (tmp_path / "SKILL.md").write_text(text)
    with pytest.raises(ConfigurationError) as runtime:
        read_folder(tmp_path)
    with pytest.raises(InvalidSkill) as operator:
        read_skill("haiku", {"SKILL.md": text})
    assert str(runtime.value) == str(operator.value)
