"""Closes the questions of peers whose task has ended outside of a turn. A turn that ends closes its own questions."""

import logging

from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.storage.open_questions import OpenQuestions

_logger = logging.getLogger(__name__)


class QuestionRelease:
    def __init__(self, turns: TurnLoader, questions: OpenQuestions) -> None:
        self._turns = turns
        self._questions = questions

    async def release(self, owner: str, task_id: str) -> None:
        """Close the questions of a task that has ended. After a failure, maintenance closes them later."""
        try:
            # Without a question, do not build the turn.
            if await self._questions.of(owner, task_id):
                await self._turns.over(owner, task_id)
        except Exception:
            _logger.exception("the questions of a task could not be closed", extra={"task": task_id})
