/** Compare: runs side by side on one seed: what is kept, what a link brought, and the same without guards. */
import type { Report, ScenarioDocument } from "@redrive/simulator";
import { formatDuration, formatNumber, percent } from "@redrive/simulator/words";
import { Card } from "../../../parts/card.tsx";
import { Select } from "../../../parts/select.tsx";
import { hasGuards, isCalls, isSame } from "../document/document.ts";
import { isCompareBusy, reportOf } from "../state/runs.ts";
import {
  current,
  documentOf,
  entries,
  type Ghost,
  ghost,
  ghostDocument,
  keep,
  MAX_ENTRIES,
  remove,
  show,
  shown,
} from "../state/system-store.ts";
import { recoveryWords } from "./figures.tsx";

/** What a row is called: its name, and what sets it apart from others of that name. */
export function titleOf(place: number): string {
  const list = entries.value;
  const { name = "scenario" } = documentOf(list[place]);
  const alike = list.filter((entry) => (documentOf(entry).name ?? "scenario") === name);
  if (alike.length === 1) return name;
  const before = list.slice(0, place + 1);
  const number = before.filter((entry) => (documentOf(entry).name ?? "scenario") === name).length;
  return `${name} (${number})`;
}

/** What is drawn dashed, in words; undefined if nothing is. */
export function ghostTitle(): string | undefined {
  if (ghostDocument.value === undefined) return undefined;
  return typeof ghost.value === "number" ? titleOf(ghost.value) : "without guards";
}

export function Compare() {
  const list = entries.value;
  const hasRows = list.length > 1 || ghostDocument.value !== undefined;
  return (
    <Card title="Compare" aside="all on one seed">
      <div class="compare-bar">
        <button type="button" class="button" disabled={list.length >= MAX_ENTRIES} onClick={keep}>
          Keep this run
        </button>
        <Select
          label="Dashed behind"
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
          Keep this run, then change something: both stand here. With a guard on, the same run
          without guards is drawn dashed.
        </p>
      )}
    </Card>
  );
}

function ghostOptions() {
  const others = entries.value
    .map((_, place) => ({ value: String(place), label: titleOf(place) }))
    .filter((_, place) => place !== shown.value);
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
          {entries.value.map((entry, place) => (
            <EntryRow key={place} place={place} document={documentOf(entry)} />
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

function EntryRow({ place, document }: { readonly place: number; document: ScenarioDocument }) {
  const isShown = place === shown.value;
  const title = titleOf(place);
  return (
    <tr class={isShown ? "shown" : ""}>
      <th scope="row">
        <button
          type="button"
          class="row-name"
          aria-pressed={isShown}
          title={guardsOf(document)}
          onClick={() => show(place)}
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
            onClick={() => remove(place)}
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
      <td class={report.recoveryMs === null ? "number bad" : "number"}>{recoveryWords(report)}</td>
      <td class="number">{formatDuration(latencyMs.p99)}</td>
      <td class="number">{percent(calls === 0 ? 0 : lost / calls)}</td>
      <td class="verdict-cell">{verdict}</td>
    </>
  );
}
