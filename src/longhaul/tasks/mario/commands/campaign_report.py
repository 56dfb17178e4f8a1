"""How a campaign stands, as a table and as a page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from longhaul.app.build.text import columns
from longhaul.report.summary import duration
from longhaul.tasks.mario.commands.campaign_plan import CourseState


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """How a campaign stands."""

    task: str
    seconds: float
    states: tuple[CourseState, ...]
    exit_code: int = 0
    reason: str = ""
    """Why it stopped before its budget was spent; empty if it was not stopped."""

    @property
    def cleared(self) -> int:
        """Courses that were cleared at least once in an evaluation."""
        return sum(state.rate > 0 for state in self.states)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table, its head first."""
        head = (
            "stage",
            "cleared",
            "clear rate",
            "final",
            "progress",
            "best x",
            "minutes",
            "steps",
            "blocks",
        )
        return [
            head,
            *(
                (
                    state.name,
                    "yes" if state.rate > 0 else "no" if state.worths else "-",
                    f"{state.rate:.2f}",
                    "{:.2f} ({:.2f} to {:.2f})".format(*state.final) if state.final else "-",
                    f"{state.progress:.0f}",
                    f"{state.farthest:.0f}",
                    f"{state.seconds / 60:.1f}",
                    f"{state.env_steps:,}",
                    state.problem or state.blocked or "-",
                )
                for state in self.states
            ),
        ]

    def as_text(self) -> str:
        """Return the table for people."""
        total = f"{self.cleared} of {len(self.states)} cleared in {duration(self.seconds)}"
        stopped = f"\n{self.reason}; run the same command to continue" if self.reason else ""
        return f"{columns(self.rows())}\n{total}{stopped}"

    def as_markdown(self) -> str:
        """Return the table as a page, with links to the films."""
        head, *rows = self.rows()
        lines = [
            f"# Campaign: {self.task}",
            "",
            f"{self.cleared} of {len(self.states)} cleared in {duration(self.seconds)}. "
            "Clear rates are the best of an evaluation from the true start during training, which "
            "flatters them; final ones, with 95 % intervals, are of other episodes.",
            "",
            f"| {' | '.join(head)} | film |",
            f"|{' --- |' * (len(head) + 1)}",
        ]
        for state, row in zip(self.states, rows, strict=True):
            film = f"[film]({state.film})" if state.film else ""
            lines.append(f"| {' | '.join(row)} | {film} |")
        return "\n".join([*lines, ""])

    def as_json(self) -> str:
        """Return everything, for programs."""
        return json.dumps(asdict(self))
