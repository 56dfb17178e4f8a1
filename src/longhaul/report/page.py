"""The report: one page that needs no network, no script and no other file."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longhaul.core.config import flatten
from longhaul.report import summary as words
from longhaul.report.comparison import Comparison
from longhaul.report.curves import general_charts
from longhaul.report.panels import panel_charts, single_histograms
from longhaul.report.run_data import RunData
from longhaul.report.search import Axis, SearchData, trial_table
from longhaul.report.snapshots import snapshot_chart
from longhaul.report.steering import steering_charts, turns
from longhaul.report.style import STYLE, Chart, Drawn, draw
from longhaul.runs.durable import replace_file, storage_errors
from longhaul.runs.films import film_caption, read_film_notes
from longhaul.runs.score import MEAN_RETURN, TRAINING_RETURN, Score, Source

EMBEDDED_BYTES = 3_000_000
"""Films up to this size are put into the page, larger ones are linked."""
MOST_EVENTS = 60
BROAD = " broad"
NOTE_HEIGHT, GAP = 0.1, 0.1
"""Height of a note and gap between charts, relative to the width of a column."""
TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}


@dataclass(frozen=True, slots=True)
class Extras:
    """What a report shows beyond the run directory."""

    drawn: Sequence[Drawn] = ()
    why_no_plots: str = ""
    differences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Config keys that differ from the preset: its value and the run's."""
    preset: str = ""


def escape(text: object) -> str:
    """Return text escaped for HTML, attributes included."""
    return html.escape(str(text), quote=True)


def make_page(run: RunData, extras: Extras) -> str:
    """Return the whole report."""
    record = run.state.record
    title = f"{record.task} · {record.name} · seed {record.seed}"
    sections = [
        ("Summary", _summary(run)),
        ("Evaluations", "".join(map(_table, words.evaluation_tables(run)))),
        ("Films", _films(run)),
        ("Plots", _plots(extras)),
        ("Decisions of the schedule", _decisions(run)),
        ("Hints", _list(words.hints(run))),
        ("Faults and other events", _list(words.faults(run)) + _other_events(run)),
        ("Configuration", _configuration(run, extras)),
        ("Commands", _commands(run)),
        ("Machine and versions", _machine(run)),
    ]
    shown = [(name, body) for name, body in sections if body]
    links = "".join(f'<a href="#{_anchor(name)}">{escape(name)}</a>' for name, _ in shown)
    bodies = "".join(
        f'<section id="{_anchor(name)}"><h2>{escape(name)}</h2>{body}</section>'
        for name, body in shown
    )
    head = f'<p class="path">{escape(run.directory.path)}</p><nav>{links}</nav>'
    return _document("longhaul report", title, head, bodies)


def make_comparison(
    comparison: Comparison, changed: Mapping[str, Mapping[str, Any]], drawn: Sequence[Drawn]
) -> str:
    """Return a comparison as a page of the same kind."""
    header, rows = comparison.as_rows()
    notes = "".join(f"<p>{escape(note)}</p>" for note in comparison.notes())
    differing = tuple(
        (arm, key, words.short(value))
        for arm, values in changed.items()
        for key, value in values.items()
    )
    runs = tuple(
        (
            entry.arm,
            str(entry.run.state.record.seed),
            words.figure(entry.score),
            entry.run.state.status,
            str(entry.run.directory.path),
        )
        for entry in comparison.entries
    )
    title = " against ".join(arm.arm for arm in comparison.arms)
    body = (
        f"<section><h2>Figures</h2>{_table(words.Table('', header, tuple(rows)))}{notes}</section>"
        f"<section><h2>Curves</h2>{_plots(Extras(drawn))}</section>"
        "<section><h2>What differs from the first arm</h2>"
        f"{_table(words.Table('', ('arm', 'key', 'value'), differing))}</section>"
        "<section><h2>Runs</h2>"
        f"{_table(words.Table('', ('arm', 'seed', 'score', 'status', 'run'), runs))}</section>"
    )
    return _document("longhaul comparison", title, "", body)


def make_search(data: SearchData, chosen: Sequence[tuple[str, str]], drawn: Sequence[Drawn]) -> str:
    """Return a search as a page of the same kind; `chosen` are commands and what they do."""
    notes = "".join(f"<p>{escape(note)}</p>" for note in data.notes)
    keys = tuple(
        (axis.key, ", ".join(axis.options) or f"{axis.low:g} to {axis.high:g}", _scale(axis))
        for axis in data.axes
    )
    runs = tuple((str(trial.number), trial.run) for trial in data.trials if trial.run)
    body = (
        f"<section><h2>Summary</h2>{notes}{_command_list(chosen)}</section>"
        f"<section><h2>Plots</h2>{_plots(Extras(drawn))}</section>"
        f"<section><h2>Trials, best first</h2>{_table(trial_table(data))}</section>"
        f"<section><h2>What was searched</h2>"
        f"{_table(words.Table('', ('key', 'values', 'scale'), keys))}</section>"
        f"<section><h2>Runs</h2>{_table(words.Table('', ('trial', 'run'), runs))}</section>"
    )
    return _document("longhaul search", data.title, "", body)


def _scale(axis: Axis) -> str:
    return "choice" if axis.options else "logarithmic" if axis.is_log else "even"


def _document(kind: str, title: str, head: str, body: str) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data: 'self'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<header><p class="kind">{escape(kind)}</p><h1>{escape(title)}</h1>{head}</header>'
        f"<main>{body}</main></body></html>\n"
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Tile:
    """A number at the top of the page."""

    name: str
    value: str
    note: str = ""
    kind: str = ""


def _summary(run: RunData) -> str:
    tiles = "".join(map(_tile, _tiles(run)))
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in words.summary(run))
    return f'<div class="tiles">{tiles}</div>{said}'


def _tile(tile: Tile) -> str:
    note = f"<small>{escape(tile.note)}</small>" if tile.note else ""
    return (
        f'<div class="tile{tile.kind}"><span>{escape(tile.name)}</span>'
        f"<b>{escape(tile.value)}</b>{note}</div>"
    )


def _tiles(run: RunData) -> list[Tile]:
    """Return the score first, then the course of training."""
    score, best, last = run.reached, run.best, run.last
    tiles = [] if score is None else [_score_tile(score)]
    if best is not None and (score is None or score.source is not Source.TRAINING):
        suite = f", suite {best.suite}" if best.suite else ""
        name = f"best evaluation during training{suite}"
        tiles.append(Tile(name, words.figure(best.value), f"after {best.env_steps:,} steps"))
    if score is None or score.source is not Source.TRAINING:
        returned = words.rows_of(last, (TRAINING_RETURN,))
        tiles += [Tile("return in training", text, "mean of the last") for _, text in returned]
    steps = int(last.get("env_steps", 0))
    return [
        *tiles,
        Tile("steps", f"{steps:,}", run.state.status),
        Tile("training time", words.duration(words.trained_seconds(run))),
    ]


def _score_tile(score: Score) -> Tile:
    """Return the score against its target: green where it was reached, red where not."""
    kind = {True: " score good", False: " score bad", None: " score"}[score.is_solved]
    source = "last evaluation" if score.source is Source.EVALUATION else str(score.source)
    if score.source is Source.TRAINING:
        source = "training return (no evaluation yet)"
    elif score.suite:
        source = f"{source}, suite {score.suite}"
    metric = "" if score.metric in (MEAN_RETURN, TRAINING_RETURN) else score.metric
    notes = (metric, words.verdict(score), score.interval)
    return Tile(source, words.figure(score.value), "; ".join(filter(None, notes)), kind)


def _films(run: RunData) -> str:
    notes = read_film_notes(run.directory)
    shown = []
    for film in run.films:
        caption = escape(film_caption(film.name, notes))
        shown.append(
            f'<figure class="film" title="{escape(film.name)}">{_film(run, film, caption)}'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    across = 2 if len(shown) % 2 == 0 else 3
    return f'<div class="films by{across}">{"".join(shown)}</div>' if shown else ""


def _film(run: RunData, film: Path, caption: str) -> str:
    kind = TYPES[film.suffix]
    if film.stat().st_size <= EMBEDDED_BYTES:
        content = base64.b64encode(film.read_bytes()).decode()
        source = f"data:{kind};base64,{content}"
    else:
        source = escape(film.relative_to(run.directory.path).as_posix())
    if kind == "image/gif":
        return f'<img src="{source}" alt="{caption}">'
    return (
        f'<video controls loop muted preload="metadata" aria-label="{caption}" src="{source}">'
        "</video>"
    )


def _plots(extras: Extras) -> str:
    if not extras.drawn:
        return f"<p>{escape(extras.why_no_plots)}</p>" if extras.why_no_plots else ""
    broad = [one for one in extras.drawn if _shape(one.chart) == BROAD]
    columns = [
        f'<div class="column">{"".join(map(_plot, column))}</div>'
        for column in _in_columns([one for one in extras.drawn if one not in broad])
        if column
    ]
    return f'<div class="plots">{"".join(columns)}</div>{"".join(map(_plot, broad))}'


def _plot(one: Drawn) -> str:
    chart = one.chart
    note = f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
    return (
        f'<figure class="plot{_shape(chart)}" role="img" aria-label="{escape(chart.title)}">'
        f"{one.svg}{note}</figure>"
    )


def _in_columns(drawn: Sequence[Drawn]) -> tuple[list[Drawn], list[Drawn]]:
    """Return the charts in two columns of about equal height, roughly in order."""
    columns: tuple[list[Drawn], list[Drawn]] = ([], [])
    heights = [0.0, 0.0]
    for one in drawn:
        width, height = one.chart.size
        place = 0 if heights[0] <= heights[1] else 1
        columns[place].append(one)
        heights[place] += height / max(width, 6.0) + NOTE_HEIGHT * bool(one.chart.note) + GAP
    return columns


def _shape(chart: Chart) -> str:
    """Return the CSS class of a chart by its width."""
    width, _ = chart.size
    if width < 6:
        return " narrow"
    return BROAD if width > 8 else ""


def _table(table: words.Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join(
        ('<tr class="own">' if place in table.own else "<tr>")
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for place, row in enumerate(table.rows)
    )
    caption = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return (
        f'{caption}<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _decisions(run: RunData) -> str:
    found = turns(run.events)
    if not found:
        return ""
    shown = found[-MOST_EVENTS:]
    rows = tuple(
        (
            str(turn.iteration),
            turn.controller,
            turn.setting,
            f"{words.short(turn.old)} → {words.short(turn.new)}",
            turn.why,
        )
        for turn in shown
    )
    table = _table(
        words.Table("", ("iteration", "controller", "setting", "change", "reason"), rows)
    )
    more = len(found) - len(shown)
    rest = f"<p>{more} earlier ones are in events.jsonl.</p>" if more else ""
    return f"<details><summary>{_counted(len(found), 'decision')}</summary>{table}{rest}</details>"


def _other_events(run: RunData) -> str:
    found = words.other_events(run)
    if not found:
        return ""
    rows = tuple(found[-MOST_EVENTS:])
    return (
        f"<details><summary>{_counted(len(found), 'event')}</summary>"
        f"{_table(words.Table('', ('when', 'what', 'facts'), rows))}</details>"
    )


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _configuration(run: RunData, extras: Extras) -> str:
    changed = tuple(
        (key, words.short(before), words.short(after))
        for key, (before, after) in extras.differences.items()
    )
    preset = extras.preset or "the defaults"
    if changed:
        differences = _table(
            words.Table(f"What differs from {preset}", ("key", preset, "this run"), changed)
        )
    else:
        differences = f"<p>Everything is as in {escape(preset)}.</p>"
    every = tuple((key, words.short(value)) for key, value in flatten(run.config).items())
    return (
        f"{differences}<details><summary>All {len(every)} values</summary>"
        f"{_table(words.Table('', ('key', 'value'), every))}</details>"
    )


def _commands(run: RunData) -> str:
    started = ("command that started it", words.original_command(run))
    return _command_list([started, *words.commands(run)])


def _command_list(listed: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<p>{escape(what)}</p><pre>{escape(command)}</pre>" for what, command in listed if command
    )


def _machine(run: RunData) -> str:
    record = run.state.record
    begun = [("continued from", record.continued_from)] if record.continued_from else []
    facts = [("created", record.created), *begun, *record.host.items(), *record.versions.items()]
    rows = tuple(words.machine_fact(str(name), str(value)) for name, value in facts)
    return _table(words.Table("", ("what", "value"), rows))


def run_charts(run: RunData) -> list[Chart]:
    """Return every chart the run has data for, the task's own ones first; names are unique."""
    charts: dict[str, Chart] = {}
    grid = snapshot_chart(run)
    own = (*panel_charts(run), *(() if grid is None else (grid,)))
    for chart in (*own, *general_charts(run), *steering_charts(run)):
        name, number = chart.name, 1
        while name in charts:
            number += 1
            name = f"{chart.name}-{number}"
        charts[name] = Chart(name, chart.title, chart.draw, chart.note, chart.size)
    return list(charts.values())


def write_plots(run: RunData) -> list[Drawn]:
    """Draw every chart into plots/ and return them."""
    drawn = [draw(chart) for chart in run_charts(run)]
    folder = run.directory.plots
    histograms = [panel for panel in run.panels if panel.kind == "histogram"]
    # Kept as files and not shown in the report.
    aside = [chart for panel in histograms for chart in single_histograms(run, panel)]
    with storage_errors(folder):
        for chart, png in (
            *((one.chart, one.png) for one in drawn),
            *((chart, draw(chart, vector=False).png) for chart in aside),
        ):
            path = folder / f"{chart.name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, png, durable=False)
    return drawn
