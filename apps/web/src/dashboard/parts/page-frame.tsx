/**
 * Page frame: the title of a page, its actions, its error, and its content: why there is none, or
 * figures as tiles.
 */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Notice } from "../../components/frames.tsx";
import { CopyButton } from "./form.tsx";

interface PageFrameProps {
  readonly title: string;
  /** A link to the list that the page belongs to. */
  readonly parent?: ComponentChildren;
  readonly problem?: string;
  /** False until the first response. */
  readonly isLoaded?: boolean;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function PageFrame(props: PageFrameProps) {
  const { title, parent, problem = "", isLoaded = true, actions, children } = props;
  return (
    <div class="page stage">
      <div class="page-head">
        <div class="page-title">
          {parent !== undefined && <p class="page-parent">{parent}</p>}
          <h1>
            <bdi>{title}</bdi>
          </h1>
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {problem !== "" && <Notice tone="bad">{problem}</Notice>}
      {!isLoaded && problem === "" && <p class="loading">Loading…</p>}
      {isLoaded && children}
    </div>
  );
}

interface EmptyStateProps {
  readonly title: string;
  readonly command?: string;
  readonly children?: ComponentChildren;
}

/** Says why a page is empty, with a command to paste. */
export function EmptyState({ title, command, children }: EmptyStateProps) {
  return (
    <div class="empty-state">
      <h2>{title}</h2>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && (
        <div class="command">
          <pre>{command}</pre>
          <CopyButton text={command} label="Copy" />
        </div>
      )}
    </div>
  );
}

interface TileProps {
  readonly label: string;
  readonly value: string;
  readonly note: string;
  readonly isBad?: boolean;
  /** Draws the line. It may replace the note while the pointer is over a minute. */
  readonly line?: (onPoint: (text: string) => void) => ComponentChildren;
}

/** A figure with its label, a note, and a line of the last hour. */
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
