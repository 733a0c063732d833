/** Results: the verdict and the figures of the shown run, and the comparison of all runs. */
import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import { type Report, type ScenarioDocument, scenarios } from "@redrive/simulator";
import { isUndecided, reportRows } from "@redrive/simulator/text";
import { Select } from "../../components/controls.tsx";
import { Card, Stat, Stats } from "../../components/frames.tsx";
import { hasGuards, isCalls, isSame } from "./document.ts";
import { countsIn, endOf, faultPeriodOf } from "./run-chart.tsx";
import {
  current,
  documentOf,
  entries,
  type Ghost,
  ghost,
  ghostDocument,
  isBusy,
  isCompareBusy,
  isStale,
  keep,
  MAX_ENTRIES,
  phases,
  remove,
  reportOf,
  show,
  shown,
} from "./system-store.ts";

function isBad(report: Report): boolean {
  const isLost = report.recoveryMs === null && !isUndecided(report);
  return isLost || (report.calls > 0 && report.succeeded === 0);
}

function recoveryText(report: Report): string {
  const { recoveryMs } = report;
  if (recoveryMs === undefined) return "no fault";
  if (isUndecided(report)) return "too short";
  if (recoveryMs === null) return "never";
  return recoveryMs === 0 ? "immediately" : formatDuration(recoveryMs);
}

export function Verdict({ report }: { readonly report: Report }) {
  const tone = isBad(report) ? "verdict bad" : "verdict";
  return (
    <p class={isStale.value ? `${tone} stale` : tone} role="status" aria-busy={isBusy.value}>
      {report.verdict}
    </p>
  );
}

export function RunStats({ report }: { readonly report: Report }) {
  const { peak, latencyMs, calls, lost } = report;
  return (
    <Stats isBusy={isBusy.value} isStale={isStale.value}>
      <Stat
        label="Amplification"
        value={`${formatNumber(report.amplification)} x`}
        note={`${formatInteger(report.attempts)} attempts for ${formatInteger(calls)} calls`}
      />
      <Stat
        label="Peak"
        value={formatInteger(peak.count)}
        note={`attempts within ${formatDuration(peak.windowMs)}, at ${peak.atMs === 0 ? "0" : formatDuration(peak.atMs)}`}
      />
      <Recovery report={report} />
      <Stat
        label="Latency p99"
        value={formatDuration(latencyMs.p99)}
        note={`p50 ${formatDuration(latencyMs.p50)}, including waits`}
      />
      <Stat
        label="Lost"
        value={formatPercent(calls === 0 ? 0 : lost / calls)}
        tone={lost > calls / 2 ? "bad" : "plain"}
        note={`${formatInteger(lost)} of ${formatInteger(calls)} calls`}
      />
      <Goodput report={report} />
    </Stats>
  );
}

/** A message queue has no faults to recover from; its problem is duplicate work. */
function Recovery({ report }: { readonly report: Report }) {
  const { recoveryMs, duplicateShare } = report;
  if (duplicateShare !== undefined) {
    return <Stat label="Duplicates" value={formatPercent(duplicateShare)} note="of the runs" />;
  }
  return (
    <Stat
      label="Recovers"
      value={recoveryText(report)}
      tone={recoveryMs === null && !isUndecided(report) ? "bad" : "plain"}
      note={recoveryNote(report)}
    />
  );
}

function recoveryNote(report: Report): string {
  if (report.recoveryMs === undefined) return "nothing to recover from";
  return isUndecided(report) ? "observe it for longer" : "after the fault";
}

/** Successful calls per second after the faults and during them. */
function Goodput({ report }: { readonly report: Report }) {
  const faults = faultPeriodOf(phases.value);
  if (report.deadLetterShare !== undefined) {
    const share = formatPercent(report.deadLetterShare);
    return <Stat label="Dead letters" value={share} note="of the messages" />;
  }
  if (faults === undefined) {
    return <Stat label="Goodput" value={formatPercent(report.goodput)} note="of the calls" />;
  }
  const during = countsIn(report, faults.fromMs, faults.toMs);
  const after = countsIn(report, faults.toMs, endOf(report));
  const isOpen = report.engine === "calls" && after.offered > 0;
  const offered = isOpen ? `, offered ${rateOf(after.offered, after.ms)}` : "";
  return (
    <Stat
      label="Goodput after"
      value={rateOf(after.succeeded, after.ms)}
      note={`during ${rateOf(during.succeeded, during.ms)}${offered}`}
      tone={after.succeeded === 0 && after.offered > 0 ? "bad" : "accent"}
    />
  );
}

function rateOf(count: number, ms: number): string {
  return ms === 0 ? "-" : `${formatInteger((count * 1000) / ms)}/s`;
}

/** Every measure, exactly as `redrive sim run` prints it. */
export function MeasureTable({ report }: { readonly report: Report }) {
  return (
    <details class="more">
      <summary>All measures</summary>
      <div class={isStale.value ? "table-wrap stale" : "table-wrap"} aria-busy={isBusy.value}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">measure</th>
              <th scope="col" class="number">
                value
              </th>
              <th scope="col">what it means</th>
            </tr>
          </thead>
          <tbody>
            {reportRows(report).map(([name, value, meaning]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">{value}</td>
                <td>{meaning}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

// Compare: a table of all runs with the same seed, including the ghost.

/** The name of a row: of its scenario, and what differs from it if several rows have that name. */
function titleOf(index: number): string {
  const titles = entries.value.map((_, each) => plainTitleOf(each));
  const title = titles[index] ?? "scenario";
  const earlier = titles.slice(0, index).filter((one) => one === title).length;
  return earlier === 0 ? title : `${title}, copy${earlier === 1 ? "" : ` ${earlier}`}`;
}

function plainTitleOf(index: number): string {
  const documents = entries.value.map(documentOf);
  const document = documentOf(entries.value[index]);
  const { name = "scenario" } = document;
  const alike = documents.filter((one) => (one.name ?? "scenario") === name);
  if (alike.length === 1) return name;
  const base = Object.hasOwn(scenarios, name) ? scenarios[name] : alike[0];
  const difference = differenceText(base ?? document, document);
  return difference === "" ? name : `${name}: ${difference}`;
}

/** The name of the ghost; undefined if there is none. */
export function ghostTitle(): string | undefined {
  if (ghostDocument.value === undefined) return undefined;
  return typeof ghost.value === "number" ? titleOf(ghost.value) : "without guards";
}

export function Compare() {
  const list = entries.value;
  const hasRows = list.length > 1 || ghostDocument.value !== undefined;
  return (
    <Card title="Compare" aside="all with the same seed">
      <div class="compare-bar">
        <button type="button" class="button" disabled={list.length >= MAX_ENTRIES} onClick={keep}>
          Keep this run
        </button>
        <Select
          label="Dashed line"
          value={String(ghost.value)}
          groups={[{ label: "Runs", options: ghostOptions() }]}
          onChange={(value) => {
            ghost.value = asGhost(value);
          }}
        />
      </div>
      {hasRows ? (
        <CompareTable />
      ) : (
        <p class="faint hint">
          Keep this run and then change something to compare both here. With a guard on, the same
          run without guards is drawn dashed.
        </p>
      )}
    </Card>
  );
}

function ghostOptions() {
  const others = entries.value
    .map((_, index) => ({ value: String(index), label: titleOf(index) }))
    .filter((_, index) => index !== shown.value);
  return [
    { value: "none", label: "nothing" },
    ...(isCalls(current.value) ? [{ value: "unguarded", label: "the same without guards" }] : []),
    ...others,
  ];
}

function asGhost(value: string): Ghost {
  return value === "none" || value === "unguarded" ? value : Number(value);
}

function CompareTable() {
  const bare = ghostDocument.value;
  const isListed = bare !== undefined && entries.value.some((one) => isSame(documentOf(one), bare));
  return (
    <div class="table-wrap" aria-busy={isCompareBusy.value}>
      <table class="table compare">
        <thead>
          <tr>
            <th scope="col">run</th>
            <th scope="col" class="number">
              attempts per call
            </th>
            <th scope="col" class="number">
              recovers
            </th>
            <th scope="col" class="number">
              p99
            </th>
            <th scope="col" class="number">
              lost
            </th>
            <th scope="col">verdict</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {entries.value.map((entry, index) => (
            <EntryRow key={index} index={index} document={documentOf(entry)} />
          ))}
          {bare !== undefined && !isListed && (
            <tr>
              <th scope="row">without guards</th>
              <Cells report={reportOf(bare)} />
              <td />
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

function EntryRow({ index, document }: { readonly index: number; document: ScenarioDocument }) {
  const isShown = index === shown.value;
  const title = titleOf(index);
  return (
    <tr class={isShown ? "shown" : ""}>
      <th scope="row">
        <button
          type="button"
          class="row-name"
          aria-pressed={isShown}
          title={guardsOf(document)}
          onClick={() => show(index)}
        >
          {title}
        </button>
      </th>
      <Cells report={reportOf(document)} />
      <td class="number">
        {entries.value.length > 1 && (
          <button
            type="button"
            class="button quiet small"
            aria-label={`Remove ${title}`}
            onClick={() => remove(index)}
          >
            ×
          </button>
        )}
      </td>
    </tr>
  );
}

function guardsOf(document: ScenarioDocument): string {
  return hasGuards(document) ? "with guards" : "without guards";
}

function Cells({ report }: { readonly report: Report | undefined }) {
  if (report === undefined) return <td colSpan={5}>running…</td>;
  const { calls, lost, amplification, latencyMs, verdict } = report;
  return (
    <>
      <td class="number">{formatNumber(amplification)}</td>
      <td class={isBad(report) ? "number bad" : "number"}>{recoveryText(report)}</td>
      <td class="number">{formatDuration(latencyMs.p99)}</td>
      <td class="number">{formatPercent(calls === 0 ? 0 : lost / calls)}</td>
      <td class="verdict-cell">{verdict}</td>
    </>
  );
}

/** A title with more of them does not fit into a table. */
const MAX_NAMED = 2;

type Leaves = ReadonlyMap<string, unknown>;

/**
 * Names a compared run by what differs from the scenario that it came from, for example
 * "maxAttempts 3, breaker"; empty if only name and description differ.
 */
export function differenceText(base: ScenarioDocument, document: ScenarioDocument): string {
  const [before, after] = [leavesOf(base), leavesOf(document)];
  const paths = [...new Set([...before.keys(), ...after.keys()])].filter(
    (path) => JSON.stringify(before.get(path)) !== JSON.stringify(after.get(path)),
  );
  const texts = [...new Set(paths.map((path) => changeText(path, before, after)))];
  const more = texts.length > MAX_NAMED ? `, ${texts.length - MAX_NAMED} more` : "";
  return `${texts.slice(0, MAX_NAMED).join(", ")}${more}`;
}

const GUARDS = ["breaker", "retryBudget", "concurrency", "rate", "throttle", "hedge"];

function changeText(path: string, before: Leaves, after: Leaves): string {
  const parts = path.split(".");
  const guard = parts.findIndex((part) => GUARDS.includes(part));
  if (guard >= 0) {
    const root = parts.slice(0, guard + 1).join(".");
    const [had, has] = [before, after].map((leaves) => isOn(leaves, root));
    if (had !== has) return has ? String(parts[guard]) : `no ${parts[guard]}`;
  }
  const [name = path] = parts.slice(-1);
  return after.has(path) ? `${name} ${valueText(name, after.get(path))}` : `default ${name}`;
}

function isOn(leaves: Leaves, root: string): boolean {
  if (leaves.has(root)) return leaves.get(root) !== false;
  return [...leaves.keys()].some((path) => path.startsWith(`${root}.`));
}

function valueText(name: string, value: unknown): string {
  if (typeof value === "number" && name.endsWith("Ms")) return formatDuration(value);
  return String(value).toLowerCase();
}

/** The values by path. An empty object is a value, because it turns a guard on. */
function leavesOf(document: ScenarioDocument): Leaves {
  const leaves = new Map<string, unknown>();
  const add = (path: string, value: unknown) => {
    const isLeaf = typeof value !== "object" || value === null;
    const entries = isLeaf ? [] : Object.entries(value);
    if (entries.length === 0) leaves.set(path, isLeaf ? value : "{}");
    for (const [name, part] of entries) add(`${path}.${name}`, part);
  };
  for (const [name, value] of Object.entries(document)) {
    if (name !== "name" && name !== "description" && value !== undefined) add(name, value);
  }
  return leaves;
}
