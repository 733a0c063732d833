/** Frames: what surrounds content on a page: a titled card, a row of figures, and a notice. */
import type { ComponentChildren } from "preact";

interface CardProps {
  readonly title?: string;
  /** To the right of the title, for example a unit or a toggle. */
  readonly aside?: ComponentChildren;
  readonly class?: string;
  /** The content is outdated and will be replaced. */
  readonly isBusy?: boolean;
  readonly children: ComponentChildren;
}

export function Card({ title, aside, class: extra = "", isBusy = false, children }: CardProps) {
  return (
    <section class={`card ${extra}`} aria-busy={isBusy}>
      {(title !== undefined || aside !== undefined) && (
        <div class="card-head">
          {title !== undefined && <h2>{title}</h2>}
          {aside !== undefined && <div class="card-aside">{aside}</div>}
        </div>
      )}
      {children}
    </section>
  );
}

interface StatProps {
  readonly label: string;
  /** With its unit. */
  readonly value: string;
  readonly note?: string;
  readonly tone?: "accent" | "bad" | "plain";
  /** The figure is outdated and will be replaced. */
  readonly isBusy?: boolean;
}

/** One figure with label, unit and note. Stats: a row of them. */
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

interface NoticeProps {
  readonly tone?: "bad" | "warn" | "plain";
  readonly onDismiss?: () => void;
  readonly children: ComponentChildren;
}

/** An error or a hint that needs attention. */
export function Notice({ tone = "plain", onDismiss, children }: NoticeProps) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      <p>{children}</p>
      {onDismiss !== undefined && (
        <button type="button" class="button quiet" onClick={onDismiss}>
          Dismiss
        </button>
      )}
    </div>
  );
}
