/** Stat: one figure with its name, its unit and what it means; several stand in a row. */
import type { ComponentChildren } from "preact";

interface StatProps {
  readonly label: string;
  /** With its unit. */
  readonly value: string;
  readonly note?: string;
  readonly tone?: "accent" | "bad" | "plain";
}

export function Stat({ label, value, note, tone = "plain" }: StatProps) {
  return (
    <div class={`stat ${tone}`}>
      <dt>{label}</dt>
      <dd class="stat-value">{value}</dd>
      {note !== undefined && <dd class="stat-note">{note}</dd>}
    </div>
  );
}

export function Stats({ children }: { readonly children: ComponentChildren }) {
  return <dl class="stats">{children}</dl>;
}
