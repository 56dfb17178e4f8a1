"""All plots of a run, drawn and kept in its directory."""

from __future__ import annotations

from longhaul.core.panel import Panel
from longhaul.report.curves import general_charts
from longhaul.report.gathered import RunData
from longhaul.report.panels import panel_charts, single_histograms
from longhaul.report.snapshots import snapshot_chart
from longhaul.report.steering import steering_charts
from longhaul.report.style import Chart, Drawn, draw
from longhaul.runs.durable import replace_file, storage_errors


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
    aside = [chart for panel in run.panels for chart in side_charts(run, panel)]
    with storage_errors(folder):
        for chart, png in (
            *((one.chart, one.png) for one in drawn),
            *((chart, draw(chart, vector=False).png) for chart in aside),
        ):
            path = folder / f"{chart.name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, png, durable=False)
    return drawn


def side_charts(run: RunData, panel: Panel) -> list[Chart]:
    """Return charts that are kept as files and not shown in the report."""
    return single_histograms(run, panel) if panel.kind == "histogram" else []
