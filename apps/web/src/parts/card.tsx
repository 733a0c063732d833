/** Card: a titled part of the stage or of the controls. */
import type { ComponentChildren } from "preact";

interface CardProps {
  readonly title?: string;
  /** Beside the title, at the right: a unit, a toggle. */
  readonly aside?: ComponentChildren;
  readonly class?: string;
  /** What it holds is not of what is shown now; what is comes. */
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
