/** Lab panel: one lab with its verdict; expands to lesson, sources, chart and table. */
import { formatDuration } from "@redrive/core";
import { useRef } from "preact/hooks";
import { Legend } from "../../components/legend.tsx";
import type { LabEntry } from "../../worker/lab-requests.ts";
import { LabChart } from "./lab-chart.tsx";
import {
  type LabRun,
  resume,
  runningId,
  runningText,
  runOf,
  runOnly,
  seed,
  setOpen,
  stop,
  wanted,
} from "./lab-store.ts";
import { LabTable } from "./lab-table.tsx";
import { verdictOf } from "./overview-chart.tsx";
import { sources } from "./sources.ts";

interface LabPanelProps {
  readonly entry: LabEntry;
  readonly isOpen: boolean;
}

export function LabPanel({ entry, isOpen }: LabPanelProps) {
  const { id, title } = entry;
  const run = runOf(id);
  return (
    <details
      class="card lab"
      open={isOpen}
      id={`lab-${id}`}
      onToggle={(event) => setOpen(id, event.currentTarget.open)}
    >
      <summary>
        <h2>
          {title} <code class="faint">{id}</code>
        </h2>
        <LabState id={id} run={run} />
      </summary>
      <p class="lesson">{entry.lesson}</p>
      <Sources entry={entry} />
      {run === undefined ? <RunButton id={id} /> : <Outcome id={id} run={run} />}
    </details>
  );
}

/** The status of a lab: waiting, running or its verdict. */
export function LabState({ id, run }: { readonly id: string; readonly run: LabRun | undefined }) {
  if (run === undefined) {
    return (
      <span class="lab-verdict">{runningId.value === id ? runningText.value : "not run yet"}</span>
    );
  }
  const { ok } = run.report;
  return <span class={ok ? "lab-verdict ok" : "lab-verdict missed"}>{verdictOf(run)}</span>;
}

function Sources({ entry }: { readonly entry: LabEntry }) {
  return (
    <p class="sources">
      Published:{" "}
      {(sources[entry.id] ?? [{ text: entry.source }]).map(({ text, url }, index) => (
        <span key={text}>
          {index > 0 && "; "}
          {url === undefined ? (
            text
          ) : (
            <a href={url} target="_blank" rel="noreferrer">
              {text}
            </a>
          )}
        </span>
      ))}
      .
    </p>
  );
}

const LEGEND = [
  { mark: "ours", label: "ours" },
  { mark: "published", label: "published" },
  { mark: "mark-range", label: "tolerance" },
];

function Outcome({ id, run }: { readonly id: string; readonly run: LabRun }) {
  const drawing = useRef<SVGSVGElement>(null);
  return (
    <div class="outcome">
      <figure>
        <div class="chart-head">
          <Legend entries={LEGEND} />
          <span>
            {(["PNG", "SVG"] as const).map((kind) => (
              <button
                key={kind}
                type="button"
                class="button quiet small"
                aria-label={`${kind} of the chart of ${id}`}
                onClick={() => void save(kind, id, drawing.current)}
              >
                {kind}
              </button>
            ))}
          </span>
        </div>
        <LabChart run={run} svgRef={drawing} />
      </figure>
      <div>
        <LabTable report={run.report} />
        <p class="faint took">
          Seed {seed.value}, {formatDuration(Math.round(run.tookMs))} on this machine. Same results:{" "}
          <code>
            redrive sim lab {id}
            {seed.value === 1 ? "" : ` --seed ${seed.value}`}
          </code>
        </p>
        <OnlyButton id={id} />
      </div>
    </div>
  );
}

/** One lab takes seconds to a minute. */
function RunButton({ id }: { readonly id: string }) {
  const isRunning = runningId.value === id;
  return (
    <button
      type="button"
      class="button small"
      aria-label={isRunning ? `Stop ${id}` : `Run only this lab: ${id}`}
      onClick={() => (isRunning ? stop() : runOnly(id))}
    >
      {isRunning ? "Stop" : "Run only this lab"}
    </button>
  );
}

/** Lets a link open this lab only. */
function OnlyButton({ id }: { readonly id: string }) {
  const isOnly = wanted.value.length === 1;
  return (
    <button
      type="button"
      class="button small"
      onClick={() => {
        wanted.value = isOnly ? [] : [id];
        resume();
      }}
    >
      {isOnly ? "Show all labs" : "Show only this lab"}
    </button>
  );
}

async function save(kind: "PNG" | "SVG", id: string, drawing: SVGSVGElement | null) {
  const files = await import("../../exports/files.ts");
  const [name, caption] = [`redrive-lab-${id}`, `lab ${id}, seed ${seed.value}`];
  if (kind === "PNG") await files.downloadPng(name, drawing, caption);
  else files.downloadSvg(name, drawing, caption);
}
