/** System exports: the chart, the series, the report and the policy of the System view. */
import type { PolicyDocument } from "@redrive/core";
import { seriesRows } from "@redrive/simulator/text";
import type { ExportSources } from "../../exports/export-menu.ts";
import { drawing } from "./chart/run-chart.tsx";
import { isCalls, ownPolicyOf, policyOf } from "./document/document.ts";
import { currentReport } from "./state/runs.ts";
import { current, layer, seed } from "./state/system-store.ts";

export function systemExports(): ExportSources {
  return {
    name: `redrive-system-${current.value.name ?? "scenario"}`,
    drawing: async () => {
      await currentReport();
      return drawing.current;
    },
    caption: () => `${current.value.name ?? "scenario"}, seed ${seed.value}`,
    rows: async () => seriesRows(await currentReport()),
    json: currentReport,
    policy: shownPolicy,
  };
}

function shownPolicy(): PolicyDocument {
  const document = current.value;
  return isCalls(document) ? policyOf(document, layer.value) : ownPolicyOf(document);
}
