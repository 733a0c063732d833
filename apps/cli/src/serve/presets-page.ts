/** Page: the HTML of `redrive dev`, until the dashboard takes its place. No script, no network. */
import { formatDuration } from "@redrive/core";
import type { PresetSchedule } from "./preset-schedules.ts";

export const PAGE_STYLE = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 64rem; margin: 0 auto; padding: 2rem 1rem; }
h1 { margin: 0; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: start; vertical-align: top; padding: 0.5rem 0.75rem 0.5rem 0; }
tr { border-bottom: 1px solid var(--line); }
td:last-child { font-variant-numeric: tabular-nums; }
small { font-weight: 400; }
.wide { overflow-x: auto; }
.faint { opacity: 0.7; }
`;

export function presetsPage(schedules: readonly PresetSchedule[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Redrive</title>
<link rel="stylesheet" href="/style.css">
</head>
<body>
<main>
<h1>Redrive</h1>
<p>Retries that heal instead of hurt. This page shows what works today: the presets, each with the
longest wait after every failed attempt. Chance picks the wait at or below it.</p>
<div class="wide">
<table>
<thead><tr><th scope="col">Preset</th><th scope="col">Calls</th><th scope="col">Jitter</th><th scope="col">Longest waits</th></tr></thead>
<tbody>
${schedules.map(row).join("\n")}
</tbody>
</table>
</div>
<p>See what a policy does before it runs: <a href="/ui/simulator">the simulator</a>.</p>
<p>What the service takes and answers: <a href="/docs">its API</a>.</p>
<p class="faint">The same as JSON: <a href="/policies.json">/policies.json</a></p>
</main>
</body>
</html>
`;
}

function row(schedule: PresetSchedule): string {
  const more = schedule.maxAttempts - 1 > schedule.ceilingsMs.length ? ", ..." : "";
  const spans = schedule.ceilingsMs.map((ms) => formatDuration(ms).replace(" ", "\u00a0"));
  const waits = `${spans.join(", ")}${more}`;
  return `<tr><th scope="row">${escapeHtml(schedule.name)}<br><small>${escapeHtml(schedule.description)}</small></th><td>${
    schedule.maxAttempts
  }</td><td>${escapeHtml(schedule.jitterType)}</td><td>${escapeHtml(waits || "none")}</td></tr>`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/gu, (character) => ENTITIES[character] ?? character);
}
