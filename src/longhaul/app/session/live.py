"""The live panel: progress, speed, returns, losses, time per stage, hints and notices."""

from __future__ import annotations

import sys
import termios
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from longhaul.app.build.env_output import own_streams
from longhaul.app.session.display import MEAN_RETURN, Display, score_headline
from longhaul.core.control import Progress as RunProgress
from longhaul.core.control import RunLength
from longhaul.core.hint import Hint
from longhaul.core.metrics import Metrics

STAGE_STYLES = {
    "collect": "cyan",
    "learn": "magenta",
    "evaluate": "yellow",
    "checkpoint": "green",
    "other": "bright_black",
}
ROWS = (
    (("return", "rollout/ep_rew_mean", ",.1f"), ("loss", "train/loss", ".4g")),
    (("length", "rollout/ep_len_mean", ",.0f"), ("value loss", "train/value_loss", ".4g")),
    (score_headline(MEAN_RETURN), ("entropy loss", "train/entropy_loss", ".4g")),
    (("episodes", "episodes", ",.0f"), ("approx. KL", "train/approx_kl", ".4f")),
    (
        ("steps/s", "time/session_fps", ",.0f"),
        ("explained var.", "train/explained_variance", ".3f"),
    ),
    (("iteration", "iteration", ",.0f"), ("learning rate", "train/learning_rate", ".3g")),
)
SHOWN_HINTS = 3
SPARKS = "▁▂▃▄▅▆▇█"


class LivePanel(Display):
    """A panel redrawn four times a second on the error stream."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=own_streams().err)
        self._bar = Progress(
            TextColumn("[bold]{task.completed:,.0f}[/] of {task.total:,.0f} {task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._total = TaskID(0)
        self._length = RunLength()
        self._echo = ExitStack()
        self._title = ""
        self._score = MEAN_RETURN
        self._stage = "starting"
        self._metrics: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._returns: deque[float] = deque(maxlen=400)
        self._notices: deque[str] = deque(maxlen=5)
        self._hints: dict[str, str] = {}
        self._live = Live(
            console=self._console,
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def open(self, title: str, *, length: RunLength, score: str = MEAN_RETURN) -> None:
        """Open the panel."""
        self._title = title
        self._score = score
        self._length = length
        self._total = self._bar.add_task(length.unit, total=length.total)
        self._echo.enter_context(quiet_control_keys())
        self._live.start()

    def write(self, progress: RunProgress, metrics: Metrics) -> None:
        """Store one iteration; the next redraw shows it."""
        self._metrics |= metrics
        self._metrics["iteration"] = progress.iteration
        self._metrics["episodes"] = progress.episodes
        if "rollout/ep_rew_mean" in metrics:
            self._returns.append(metrics["rollout/ep_rew_mean"])
        for name in STAGE_STYLES:
            spent = metrics.get(f"time/{name}_seconds", 0.0)
            self._spent[name] = 0.98 * self._spent.get(name, 0.0) + spent
        self._bar.update(self._total, completed=self._length.done(progress))

    def stage(self, name: str) -> None:
        """Show the current stage."""
        self._stage = name

    def advance(self, stage: str, done: int, total: int) -> None:
        """Show how many episodes of a long stage are done."""
        self._stage = f"{stage}: {done} of {total} episodes"

    def notice(self, text: str) -> None:
        """Show one message: in the panel while it is open, else as plain lines."""
        if self._live.is_started:
            self._notices.append(text)
        else:
            self._console.print(text, markup=False, highlight=False)

    def hint(self, progress: RunProgress, hint: Hint) -> None:
        """Show the hint in the panel; it replaces older hints of its rule."""
        self._hints.pop(hint.rule, None)
        self._hints[hint.rule] = f"{hint.text} (iteration {progress.iteration:,})"

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._stage = "done"
        self._live.stop()
        self._echo.close()

    def _draw(self) -> RenderableType:
        parts: list[RenderableType] = [self._bar, self._figures(), self._split()]
        if len(self._returns) > 1:
            width = min(60, self._room)
            parts.append(
                Text(f"return  {sparkline(list(self._returns), width=width)}", style="blue")
            )
        newest = list(self._hints.values())[-SHOWN_HINTS:]
        parts += [Text(f"hint: {text}", style="yellow") for text in newest]
        parts += [Text(f"· {text}", style="dim") for text in self._notices]
        return Panel(
            Group(*parts), title=Text(self._title, "bold"), subtitle=self._stage, expand=True
        )

    def _figures(self) -> Table:
        table = Table.grid(padding=(0, 2), expand=True)
        for _ in range(2):
            table.add_column(style="dim", ratio=2)
            table.add_column(justify="right", ratio=2)
        for row in ROWS:
            cells: list[str] = []
            for figure in row:
                judged = figure[1] == MEAN_RETURN
                label, name, form = score_headline(self._score) if judged else figure
                value = self._metrics.get(name)
                cells += [label, "-" if value is None else f"{value:{form}}"]
            table.add_row(*cells)
        return table

    @property
    def _room(self) -> int:
        """Width of the panel without borders and labels."""
        return max(self._console.width - 4 - 8, 10)

    def _split(self) -> Text:
        total = sum(self._spent.values())
        text = Text("time    ")
        if total <= 0:
            return text
        shares = {name: self._spent.get(name, 0.0) / total for name in STAGE_STYLES}
        width = min(60, self._room)
        for name, share in shares.items():
            text.append("█" * round(width * share), style=STAGE_STYLES[name])
        text.append("\n      ")
        for name, share in shares.items():
            if share >= 0.005:
                text.append(f"  {name} {100 * share:.0f} %", style=STAGE_STYLES[name])
        return text


@contextmanager
def quiet_control_keys() -> Iterator[None]:
    """Keep the terminal from echoing ^C into the panel."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = [*before]
    quiet[3] &= ~termios.ECHOCTL
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def sparkline(values: list[float], *, width: int) -> str:
    """Return the values as one line of bars, averaged down to at most `width` of them."""
    count = min(width, len(values))
    groups = [
        values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)
    ]
    means = [sum(group) / len(group) for group in groups]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((mean - low) * scale)] for mean in means)
