/** Export: what the System view gives as files: the drawing, the series, the report. */
import type { PolicyDocument } from "@redrive/core";
import { seriesRows } from "@redrive/simulator/text";
import type { Exports } from "../../exports/exportables.ts";
import { isCalls, policyOf } from "./document.ts";
import { policyDocumentOf } from "./other-worlds.tsx";
import { drawing } from "./run-chart.tsx";
import { presentReport } from "./runs.ts";
import { current, layer } from "./store.ts";

export function exportsOf(): Exports {
  return {
    name: `redrive-system-${current.value.name ?? "scenario"}`,
    drawing: async () => {
      await presentReport();
      return drawing.current;
    },
    rows: async () => seriesRows(await presentReport()),
    json: presentReport,
    policy: shownPolicy,
  };
}

function shownPolicy(): PolicyDocument {
  const document = current.value;
  return isCalls(document) ? policyOf(document, layer.value) : policyDocumentOf(document);
}
