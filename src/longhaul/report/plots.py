"""All plots of a run, drawn and kept in its directory."""

from __future__ import annotations

from longhaul.report.curves import general_charts
from longhaul.report.gathered import RunData
from longhaul.report.panels import panel_charts
from longhaul.report.steering import steering_charts
from longhaul.report.style import Chart, Drawn, draw
from longhaul.runs.durable import replace_file, storage_errors


def run_charts(run: RunData) -> list[Chart]:
    """Return every chart the run has data for, the task's own ones first; names are unique."""
    charts: dict[str, Chart] = {}
    for chart in (*panel_charts(run), *general_charts(run), *steering_charts(run)):
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
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
        for one in drawn:
            replace_file(folder / f"{one.chart.name}.png", one.png, durable=False)
    return drawn
