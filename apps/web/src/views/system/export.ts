/** Export: what the System view gives as files: the drawing, the series, the report. */
import type { PolicyDocument } from "@redrive/core";
import { seriesRows } from "@redrive/simulator/words";
import type { Exports } from "../../exports/exportables.ts";
import { isCalls, policyOf } from "./document.ts";
import { policyDocumentOf } from "./other-worlds.tsx";
import { drawing } from "./run-chart.tsx";
import { report } from "./runs.ts";
import { current, layer } from "./store.ts";

export function exportsOf(): Exports {
  return {
    name: `redrive-system-${current.value.name ?? "scenario"}`,
    drawing: () => drawing.current,
    rows: () => (report.value === undefined ? [] : seriesRows(report.value)),
    json: () => report.value ?? {},
    policy: shownPolicy,
  };
}

function shownPolicy(): PolicyDocument {
  const document = current.value;
  return isCalls(document) ? policyOf(document, layer.value) : policyDocumentOf(document);
}
