/** Compare: a table of all runs with the same seed, including the ghost. */

import { formatDuration, formatNumber, formatPercent } from "@redrive/core";
import { type Report, type ScenarioDocument, scenarios } from "@redrive/simulator";
import { Card } from "../../../components/card.tsx";
import { Select } from "../../../components/select.tsx";
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
import { isBad, recoveryText } from "./figures.tsx";
import { differenceText } from "./run-title.ts";

/** The name of a row: of its scenario, and what differs from it if several rows have that name. */
export function titleOf(index: number): string {
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
