/** Explanation: what one is looking at, in two sentences above the chart. */
import type { ComponentChildren } from "preact";

export function Explanation({ children }: { readonly children: ComponentChildren }) {
  return <p class="explanation">{children}</p>;
}
