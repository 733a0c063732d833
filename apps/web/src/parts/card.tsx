/** Card: a titled part of the stage or of the controls. */
import type { ComponentChildren } from "preact";

interface CardProps {
  readonly title?: string;
  /** Beside the title, at the right: a unit, a toggle. */
  readonly aside?: ComponentChildren;
  readonly class?: string;
  readonly children: ComponentChildren;
}

export function Card({ title, aside, class: extra = "", children }: CardProps) {
  return (
    <section class={`card ${extra}`}>
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
