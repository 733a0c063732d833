/** Card: a titled section of the stage or the controls. */
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
