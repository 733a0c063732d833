/** Tile: a figure with its label, a note, and a line of the last hour. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

interface TileProps {
  readonly label: string;
  readonly value: string;
  readonly note: string;
  readonly isBad?: boolean;
  /** Draws the line. It may replace the note while the pointer is over a minute. */
  readonly line?: (onPoint: (text: string) => void) => ComponentChildren;
}

export function Tile({ label, value, note, isBad = false, line }: TileProps) {
  const pointed = useSignal("");
  return (
    <div class={isBad ? "tile bad" : "tile"}>
      <dt>{label}</dt>
      <dd class="tile-value">{value}</dd>
      <dd class="tile-note">{pointed.value === "" ? note : pointed.value}</dd>
      {line !== undefined && (
        <dd class="tile-line">
          {line((text) => {
            pointed.value = text;
          })}
        </dd>
      )}
    </div>
  );
}
