/** Notice: an error or a hint that needs attention. */
import type { ComponentChildren } from "preact";

interface NoticeProps {
  readonly tone?: "bad" | "warn" | "plain";
  readonly onDismiss?: () => void;
  readonly children: ComponentChildren;
}

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
