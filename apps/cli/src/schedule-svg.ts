/** Schedule SVG: the waits of one call as a picture, a bar each with the range it was drawn from. */

import { formatDuration, type PolicyDocument } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
import { policySummary } from "@redrive/simulator/text";
import { svgBars } from "./svg.ts";

export function scheduleSvg(document: PolicyDocument, { waits }: Schedule): string {
  const bars = waits.map(({ attempt, lowMs, highMs, delayMs, sumMs }) => ({
    label: `attempt ${attempt + 1}`,
    lowMs,
    highMs,
    valueMs: delayMs,
    note: `starts at ${formatDuration(sumMs)}`,
  }));
  return svgBars(policySummary(document), bars);
}
