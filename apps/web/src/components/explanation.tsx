/** Explanation: two sentences above the chart that say what the view shows. */
import type { ComponentChildren } from "preact";

export function Explanation({ children }: { readonly children: ComponentChildren }) {
  return <p class="explanation">{children}</p>;
}
