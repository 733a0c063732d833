/** Stat: one figure with label, unit and note. Stats: a row of them. */
import type { ComponentChildren } from "preact";

interface StatProps {
  readonly label: string;
  /** With its unit. */
  readonly value: string;
  readonly note?: string;
  readonly tone?: "accent" | "bad" | "plain";
  /** The figure is outdated and will be replaced. */
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
  /** Like `isBusy` of a single stat, if all figures come from one result. */
  readonly isBusy?: boolean;
  /** The figures are outdated and will not be replaced. */
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
