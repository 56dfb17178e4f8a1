"""The style sheet of the report: light and dark, narrow and wide, on screen and on paper."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1c2733;--faint:#5d6b7a;--grid:#dbe1e8;
--card:#f5f7fa;--line:#dbe1e8;--accent:#0072b2;--good:#1c7c3c;--good-card:#e2f3e6;--bad:#b3261e;
--bad-card:#fbe4e2}
@media(prefers-color-scheme:dark){:root{--paper:#12171e;--ink:#e6ebf1;--faint:#9aa7b5;
--grid:#2c3743;--card:#1a212a;--line:#2c3743;--accent:#56b4e9;--good:#7ad295;--good-card:#193222;
--bad:#ff8a80;--bad-card:#3b1d1c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
header,main{max-width:1080px;margin:0 auto;padding:0 24px}
header{padding-top:28px}
h1{font-size:1.7rem;margin:.1em 0;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.2em 0 .6em;border-bottom:1px solid var(--line);padding-bottom:.25em}
h3{font-size:1rem;margin:1.2em 0 .4em}
.kind{margin:0;color:var(--accent);font-weight:600;letter-spacing:.02em}
.path{margin:.2em 0 .8em;color:var(--faint);font-size:.9rem;overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.3em 1.2em}
a{color:var(--accent)}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:0 0 1em}
.tile{background:var(--card);border-radius:8px;padding:12px 14px;flex:1 1 140px}
.tile b{display:block;font-size:1.25rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tile span,.tile small{display:block;color:var(--faint);font-size:.85rem}
.tile.score{flex:2 1 300px;border-left:5px solid var(--faint)}.tile.score b{font-size:1.9rem}
.tile.good{background:var(--good-card);border-color:var(--good)}.tile.good b{color:var(--good)}
.tile.bad{background:var(--bad-card);border-color:var(--bad)}.tile.bad b{color:var(--bad)}
p{margin:.4em 0;max-width:75ch}
figure{margin:0}
.plots{display:flex;flex-wrap:wrap;gap:20px}
.column{flex:1 1 min(100%,440px);min-width:0;display:flex;flex-direction:column;gap:20px}
.column .plot{flex-grow:1;display:flex;flex-direction:column;justify-content:center}
.plot{background:var(--card);border-radius:8px;padding:14px 16px;break-inside:avoid}
.plot svg{width:100%;height:auto;display:block}
.plot.narrow svg{max-width:420px;margin:0 auto}
.plot.broad{margin-top:20px}
figcaption{color:var(--faint);font-size:.85rem;margin-top:.5em;overflow-wrap:anywhere}
.films{display:flex;flex-wrap:wrap;gap:20px}
.film{flex:1 1 min(100%,440px)}.by3 .film{flex-basis:min(100%,300px)}
.film:only-child{max-width:720px}
video,.film img{width:100%;border-radius:8px;background:#000;display:block}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;margin:.4em 0}
th,td{text-align:left;padding:.32em .9em .32em 0;border-bottom:1px solid var(--line);
vertical-align:top;overflow-wrap:break-word}
td:first-child{white-space:nowrap}
th{color:var(--faint);font-weight:600;white-space:nowrap}
tr.own td{background:var(--card);font-weight:700}tr.own+tr.own td{font-weight:400}
details{margin:.8em 0}summary{cursor:pointer;color:var(--accent)}
pre{background:var(--card);border-radius:6px;padding:.6em .9em;margin:.2em 0 .9em;
font-size:.88rem;white-space:pre-wrap;overflow-wrap:anywhere}
main{padding-bottom:60px}
@media print{.films,nav{display:none}.plot{break-inside:avoid}details>*{display:block}}
"""
