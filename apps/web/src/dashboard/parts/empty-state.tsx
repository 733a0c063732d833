/** Empty state: says why a page is empty, with a command to paste. */
import type { ComponentChildren } from "preact";
import { CopyButton } from "./copy-button.tsx";

interface EmptyStateProps {
  readonly title: string;
  readonly command?: string;
  readonly children?: ComponentChildren;
}

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
