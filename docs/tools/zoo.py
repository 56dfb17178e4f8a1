"""The page of the zoo; `python -m docs.tools.zoo RUN NAME` adds the policy of a run to the zoo."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from docs.tools.wording import page, table

from longhaul.app.artifacts.zoo import measured
from longhaul.app.build.memory import machine_kind
from longhaul.app.build.sources import find_kind, preset_name
from longhaul.app.evaluation.load import Run, load
from longhaul.app.evaluation.zoo import FOLDER, WEIGHTS, ZooCard, read_zoo_card, zoo_cards
from longhaul.core.errors import ConfigError, LonghaulError

LARGEST_BYTES = 2_000_000
"""Of a policy's weights: everyone who installs longhaul downloads them."""
DISPLAY_FLAGS = ("-q", "--quiet", "--json", "--no-report", "--report")


def zoo_page() -> str:
    """Return the page of all policies, from their cards."""
    cards = zoo_cards()
    return page(
        "The zoo",
        "Small trained policies come with longhaul. `longhaul zoo list` lists them, "
        "`longhaul zoo watch NAME` films one, `longhaul zoo evaluate NAME` plays its episodes "
        'again, `longhaul.load("zoo:NAME")` returns the agent, and `start_from = "zoo:NAME"` '
        "trains it further.",
        table(
            ("policy", "task", "steps", "score", "95 % interval", "episodes", "weights"),
            [
                (
                    f"`{card.place}`",
                    f"`{card.task}`",
                    f"{card.env_steps:,}",
                    f"{card.score:.4g}",
                    f"{card.low:.4g} to {card.high:.4g}",
                    card.episodes_text,
                    f"{card.size / 1000:,.0f} kB",
                )
                for card in cards
            ],
        ),
        "Each was trained once, by a preset as it is, with the command and the commit below, and "
        "takes its most likely action. On the named kind of machine the score is the same to the "
        "last digit.",
        table(
            ("policy", "command", "preset", "commit", "score", "machine"),
            [
                (
                    f"`{card.place}`",
                    f"`{card.command}`",
                    f"`{card.preset}`",
                    f"`{card.commit}`",
                    f"`{card.metric}`",
                    card.machine,
                )
                for card in cards
            ],
        ),
    )


def head(*sources: str) -> str:
    """Return the commit of this checkout; a change in `sources` that it lacks is an error."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    if sources and (changed := git("status", "--porcelain", "--", *sources)):
        raise ConfigError(f"no commit holds these changes, commit them first:\n{changed}")
    return git("rev-parse", "--short=10", "HEAD")


def add_policy(
    run: Run, name: str, *, commit: str, episodes: int = 100, folder: Path = FOLDER
) -> ZooCard:
    """Evaluate the best checkpoint of a run and write its policy into the zoo."""
    agent = load(run.path)
    suites = agent.config.evaluate.final_suites or agent.task.evaluation.final
    suite = suites[0] if agent.task.evaluation.suite is not None else ""
    score, (low, high), played = measured(agent, episodes, suite)
    given = [word for word in run.record.command[1:] if word not in DISPLAY_FLAGS]
    asked = given[given.index("--preset") + 1] if "--preset" in given else ""
    card = agent.save(
        folder / name,
        {
            "preset": preset_name(find_kind(agent.config.task), agent.config.task, asked),
            "command": shlex.join(["longhaul", *given]),
            "commit": commit,
            "metric": agent.task.evaluation.metric,
            "score": score,
            "low": low,
            "high": high,
            "episodes": len(played),
            "suite": suite,
            "machine": machine_kind(),
        },
    )
    size = (folder / name / WEIGHTS).stat().st_size
    if size > LARGEST_BYTES:
        raise ConfigError(
            f"{folder / name} has {size:,} bytes of weights ({card['parameters']:,} parameters), "
            f"and the zoo takes {LARGEST_BYTES:,}; train a smaller network"
        )
    return read_zoo_card(name, folder)


def main() -> None:
    """Read the arguments, add the policy and print its card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name", help="of the policy, lower case")
    parser.add_argument("--episodes", type=int, default=100, help="where the task has no suites")
    parser.add_argument("--commit", default="", help="that trained the run; default: HEAD")
    asked = parser.parse_args()
    try:
        commit = asked.commit or head("src")
        card = add_policy(Run(asked.run), asked.name, commit=commit, episodes=asked.episodes)
    except LonghaulError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{card.as_text()}\n")


if __name__ == "__main__":
    main()
