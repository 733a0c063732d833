/** Legend: explains the marks of a chart. */

export interface LegendEntry {
  /** A CSS class of the chart, which gives the color and shape. */
  readonly mark: string;
  readonly label: string;
}

export function Legend({ entries }: { readonly entries: readonly LegendEntry[] }) {
  return (
    <ul class="legend">
      {entries.map(({ mark, label }) => (
        <li key={label}>
          <svg width="14" height="10" aria-hidden="true">
            <rect x="0" y="1" width="14" height="8" rx="2" class={mark} />
          </svg>
          {label}
        </li>
      ))}
    </ul>
  );
}
