/** Toolbar: what can be done with the view on the stage: re-roll, share, export. */
import { batch, type Signal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import type { ExportItem } from "../exports/export-menu.ts";
import { copyText } from "../parts/clipboard.ts";
import { Menu, MenuItem } from "../parts/menu.tsx";
import type { AnyView } from "../views/view.ts";
import { shareAddress } from "./navigation.ts";

export function Toolbar({ view }: { readonly view: AnyView }) {
  const said = useSignal("");
  const share = async () => {
    said.value = await copied(shareAddress(view));
  };
  const items = view.exports?.() ?? [];
  return (
    <div class="toolbar" role="toolbar" aria-label="View">
      <output class="said" aria-live="polite">
        {said.value}
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
                  void give(item, said);
                }}
              />
            ))
          }
        </Menu>
      )}
      <button
        type="button"
        class="button quiet"
        onClick={() => {
          said.value = "";
          batch(() => view.reset());
        }}
      >
        Reset
      </button>
    </div>
  );
}

/** What takes longer to come than this is told to be on its way. */
const PATIENCE_MS = 300;

/** A file is made of the answer to the present question, which may be still to come. */
async function give({ label, run }: ExportItem, said: Signal<string>): Promise<void> {
  said.value = "";
  const cancel = systemClock.alarm(PATIENCE_MS, () => {
    said.value = `${label} comes with the answer…`;
  });
  const problem = await run().then(
    () => "",
    (error: Error) => `No ${label}: ${error.message}`,
  );
  cancel();
  said.value = problem;
}

/** Where the clipboard is closed to pages, the address bar holds the same link. */
async function copied(text: string): Promise<string> {
  if (await copyText(text)) return "Link copied";
  history.replaceState(null, "", new URL(text).hash);
  return "Link is in the address bar";
}
