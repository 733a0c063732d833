/** Status: the status of a task or a redrive as a colored word. */

const TONES: Readonly<Record<string, string>> = {
  SUCCEEDED: "good",
  DONE: "good",
  EXHAUSTED: "bad",
  FAILED: "bad",
  IN_FLIGHT: "accent",
  RUNNING: "accent",
  PAUSED: "warn",
};

/** The names that people use. A dead letter is an EXHAUSTED task. */
const LABELS: Readonly<Record<string, string>> = {
  PENDING: "waiting",
  IN_FLIGHT: "running",
  SUCCEEDED: "succeeded",
  EXHAUSTED: "dead letter",
  CANCELLED: "canceled",
};

export function statusLabel(status: string): string {
  return LABELS[status] ?? status.toLowerCase();
}

export function Status({ status }: { readonly status: string }) {
  return <span class={`status ${TONES[status] ?? "plain"}`}>{statusLabel(status)}</span>;
}
