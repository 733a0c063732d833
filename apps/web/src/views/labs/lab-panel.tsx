/** Lab panel: one lab with its verdict; expands to lesson, sources, chart and table. */
import { formatDuration, formatSignificant } from "@redrive/core";
import type { LabReport, LabRow } from "@redrive/simulator";
import { formatTolerance, rowVerdict } from "@redrive/simulator/text";
import { useRef } from "preact/hooks";
import { Legend } from "../../components/chart.tsx";
import type { LabEntry } from "../../worker/lab-requests.ts";
import { LabChart, verdictOf } from "./lab-chart.tsx";
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
function LabState({ id, run }: { readonly id: string; readonly run: LabRun | undefined }) {
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
  const files = await import("../../components/export-files.ts");
  const [name, caption] = [`redrive-lab-${id}`, `lab ${id}, seed ${seed.value}`];
  if (kind === "PNG") await files.downloadPng(name, drawing, caption);
  else files.downloadSvg(name, drawing, caption);
}

// Lab table: every result of a lab with its figures: published, ours, tolerance, verdict.

function LabTable({ report }: { readonly report: LabReport }) {
  return (
    <div class="table-wrap">
      <table class="table lab-table">
        <caption class="visually-hidden">{`Results of ${report.id}, seed ${report.seed}`}</caption>
        <thead>
          <tr>
            <th scope="col">result</th>
            <th scope="col" class="number">
              published
            </th>
            <th scope="col" class="number">
              ours
            </th>
            <th scope="col">tolerance</th>
            <th scope="col">verdict</th>
          </tr>
        </thead>
        <tbody>
          {report.rows.map((row) => (
            <ResultRow key={row.what} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Longer text would push the numbers of the other rows apart. */
const MAX_CELL = 20;

function ResultRow({ row }: { readonly row: LabRow }) {
  const { what, published, ours, ok, core, deviation } = row;
  const verdict = rowVerdict(row);
  const isLong = typeof published === "string" && published.length > MAX_CELL;
  return (
    <tr class={verdict === "missed" ? "missed" : ""}>
      <th scope="row">
        {what}
        {core !== undefined && <small> formula in core: {formatSignificant(core)}</small>}
        {deviation !== undefined && <small> deviates: {deviation}</small>}
      </th>
      {isLong ? (
        <td colSpan={3}>{ok ? `${ours}, as published` : `published ${published}; ours ${ours}`}</td>
      ) : (
        <>
          <td class="number">{formatCell(published)}</td>
          <td class="number strong">{formatCell(ours)}</td>
          <td class="tolerance">{formatTolerance(row)}</td>
        </>
      )}
      <td>
        <span class={`lab-verdict ${verdict}`}>{verdict}</span>
      </td>
    </tr>
  );
}

function formatCell(value: number | string): string {
  return typeof value === "string" ? value : formatSignificant(value);
}

// Sources: links to the published results of each lab. The page itself makes no request to them.

interface Source {
  readonly text: string;
  /** Absent for sources in this repository. */
  readonly url?: string;
}

const BRONSON: Source = {
  text: "Bronson et al., Metastable Failures in Distributed Systems, HotOS 2021",
  url: "https://doi.org/10.1145/3458336.3465286",
};

/** No published figure: two independent implementations agree. */
const OWN: Source = { text: "our reference, two independent implementations: docs/claims.md" };

/** By lab id. */
export const sources: Readonly<Record<string, readonly Source[]>> = {
  occ: [
    {
      text: "Brooker, Exponential Backoff And Jitter, 2015",
      url: "https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/",
    },
    {
      text: "aws-arch-backoff-simulator",
      url: "https://github.com/aws-samples/aws-arch-backoff-simulator",
    },
  ],
  herd: [OWN],
  load: [
    {
      text: "Brooker, Fixing retries with token buckets and circuit breakers, 2022",
      url: "https://brooker.co.za/blog/2022/02/28/retries.html",
    },
    {
      text: "Brooker, What is Backoff For?, 2022",
      url: "https://brooker.co.za/blog/2022/08/11/backoff.html",
    },
  ],
  budgets: [
    {
      text: "SRE book, ch. 21",
      url: "https://sre.google/sre-book/handling-overload/",
    },
    { text: "Finagle", url: "https://github.com/twitter/finagle" },
    {
      text: "gRFC A6",
      url: "https://github.com/grpc/proposal/blob/master/A6-client-retries.md",
    },
    {
      text: "AWS SDK, retry behavior",
      url: "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html",
    },
    { text: "Envoy", url: "https://github.com/envoyproxy/envoy" },
  ],
  "throttle-cold-start": [
    {
      text: "SRE book, ch. 21",
      url: "https://sre.google/sre-book/handling-overload/",
    },
    {
      text: "Envoy, admission control filter",
      url: "https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/admission_control_filter",
    },
  ],
  metastable: [
    BRONSON,
    {
      text: "Huang et al., Metastable Failures in the Wild, OSDI 2022",
      url: "https://www.usenix.org/conference/osdi22/presentation/huang-lexiang",
    },
  ],
  collapse: [
    {
      text: "Brooker, simulator_example, 2023",
      url: "https://github.com/mbrooker/simulator_example",
    },
  ],
  breaker: [BRONSON, OWN],
  shards: [
    {
      text: "Brooker, Will circuit breakers solve my problems?, 2022",
      url: "https://brooker.co.za/blog/2022/02/16/circuit-breakers.html",
    },
  ],
  coverage: [OWN],
  failover: [OWN],
  "failover-open": [OWN],
  hedging: [
    {
      text: "Dean and Barroso, The Tail at Scale, 2013",
      url: "https://doi.org/10.1145/2408776.2408794",
    },
  ],
  limits: [
    { text: "our reference: what the destination can serve, docs/guards.md" },
    {
      text: "RFC 8257, Data Center TCP",
      url: "https://www.rfc-editor.org/rfc/rfc8257",
    },
    {
      text: "Liu, Basar and Srikant, TCP-Illinois, 2006",
      url: "https://doi.org/10.1145/1190095.1190166",
    },
  ],
  tiers: [
    {
      text: "SRE book, ch. 22",
      url: "https://sre.google/sre-book/addressing-cascading-failures/",
    },
    {
      text: "AWS Builders' Library, Timeouts, retries, and backoff with jitter",
      url: "https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/",
    },
  ],
};
