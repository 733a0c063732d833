/** Schedule SVG: draws the waits of one call as bars, each with the range that it was drawn from. */
import type { PolicyDocument } from "@redrive/core";
import { formatDuration } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
import { policySummary } from "@redrive/simulator/text";
import { svgBars } from "../print/svg.ts";

export function scheduleSvg(document: PolicyDocument, { waits }: Schedule): string {
  const bars = waits.map(({ attempt, lowMs, highMs, delayMs, sumMs }) => ({
    label: `attempt ${attempt + 1}`,
    lowMs,
    highMs,
    valueMs: delayMs,
    caption: `starts at ${formatDuration(sumMs)}`,
  }));
  return svgBars(policySummary(document), bars);
}
