/** Toolbar: the actions of the open view: re-roll, share, export, reset. */
import { batch, type Signal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { copyText } from "../components/clipboard.ts";
import { Menu, MenuItem } from "../components/menu.tsx";
import type { AppliedRun } from "../exports/apply-run.ts";
import type { ExportItem } from "../exports/export-menu.ts";
import type { AnyView } from "../views/view.ts";
import { isServed } from "./header.tsx";
import { shareAddress } from "./navigation.ts";

export function Toolbar({ view }: { readonly view: AnyView }) {
  const status = useSignal("");
  const share = async () => {
    const text = await copyLink(shareAddress(view));
    status.value = text;
    systemClock.alarm(STATUS_SHOWN_MS, () => {
      if (status.peek() === text) status.value = "";
    });
  };
  const items = view.exports?.() ?? [];
  return (
    <div class="toolbar" role="toolbar" aria-label="View">
      <output class="toolbar-status" aria-live="polite">
        {status.value}
      </output>
      {view.reroll !== undefined && (
        <button type="button" class="button accent" onClick={() => view.reroll?.()}>
          Re-roll <kbd>r</kbd>
        </button>
      )}
      <button type="button" class="button" onClick={share}>
        Share
      </button>
      {items.length > 0 && (
        <Menu label="Export">
          {(close) =>
            items.map((item) => (
              <MenuItem
                key={item.label}
                label={item.label}
                hint={item.hint}
                onSelect={() => {
                  close();
                  void runExport(item, status);
                }}
              />
            ))
          }
        </Menu>
      )}
      {isServed() && (view.id === "curve" || view.id === "system") && (
        <button type="button" class="button" onClick={() => void apply(view.state())}>
          Apply to…
        </button>
      )}
      <button
        type="button"
        class="button quiet"
        onClick={() => {
          status.value = "";
          batch(() => view.reset());
        }}
      >
        Reset
      </button>
    </div>
  );
}

async function apply(run: AppliedRun): Promise<void> {
  const { applyRun } = await import("../exports/apply-run.ts");
  await applyRun(run);
}

/** How long a message stays that asks for nothing. */
const STATUS_SHOWN_MS = 4000;

/** An export that takes longer than this shows a status. */
const STATUS_DELAY_MS = 300;

/** Waits for the current result if the worker is still busy. */
async function runExport({ label, run }: ExportItem, status: Signal<string>): Promise<void> {
  status.value = "";
  const cancel = systemClock.alarm(STATUS_DELAY_MS, () => {
    status.value = `${label}: waiting for the result…`;
  });
  const problem = await run().then(
    () => "",
    (error: Error) => `No ${label}: ${error.message}`,
  );
  cancel();
  status.value = problem;
}

/** If the browser denies clipboard access, puts the link into the address bar. */
async function copyLink(text: string): Promise<string> {
  if (await copyText(text)) return "Link copied";
  history.replaceState(null, "", new URL(text).hash);
  return "Link is in the address bar";
}
