/** Stat: one figure with its name, its unit and what it means; several stand in a row. */
import type { ComponentChildren } from "preact";

interface StatProps {
  readonly label: string;
  /** With its unit. */
  readonly value: string;
  readonly note?: string;
  readonly tone?: "accent" | "bad" | "plain";
  /** The figure is not of what is shown now; the one that is comes. */
  readonly isBusy?: boolean;
}

export function Stat({ label, value, note, tone = "plain", isBusy = false }: StatProps) {
  return (
    <div class={`stat ${tone}`} aria-busy={isBusy}>
      <dt>{label}</dt>
      <dd class="stat-value">{value}</dd>
      {note !== undefined && <dd class="stat-note">{note}</dd>}
    </div>
  );
}

interface StatsProps {
  /** As of a single one, where all of them are of one answer. */
  readonly isBusy?: boolean;
  /** They are not of what is shown now, and no others come. */
  readonly isStale?: boolean;
  readonly children: ComponentChildren;
}

export function Stats({ isBusy = false, isStale = false, children }: StatsProps) {
  return (
    <dl class={isStale ? "stats stale" : "stats"} aria-busy={isBusy}>
      {children}
    </dl>
  );
}
