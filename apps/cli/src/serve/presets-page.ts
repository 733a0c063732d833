/** Presets page: the HTML home page of `redrive dev`, with the presets. It loads no script. */
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
<p>Redrive retries failed calls without overloading the destination. These are the presets, each with
the maximum wait after every failed attempt. Jitter picks the actual wait below it.</p>
<div class="wide">
<table>
<thead><tr><th scope="col">Preset</th><th scope="col">Calls</th><th scope="col">Jitter</th><th scope="col">Maximum waits</th></tr></thead>
<tbody>
${schedules.map(row).join("\n")}
</tbody>
</table>
</div>
<p>Try a policy before you use it: <a href="/ui/simulator">the simulator</a>.</p>
<p>Requests and responses of the service: <a href="/docs">API reference</a>.</p>
<p class="faint">This table as JSON: <a href="/policies.json">/policies.json</a></p>
</main>
</body>
</html>
`;
}

function row(schedule: PresetSchedule): string {
  const more = schedule.maxAttempts - 1 > schedule.ceilingsMs.length ? ", ..." : "";
  const durations = schedule.ceilingsMs.map((ms) => formatDuration(ms).replace(" ", "\u00a0"));
  const waits = `${durations.join(", ")}${more}`;
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
