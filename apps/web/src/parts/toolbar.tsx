/** Toolbar: what can be done with the view on the stage: re-roll, share, export. */
import { useSignal } from "@preact/signals";
import { shareAddress } from "../app/navigation.ts";
import type { AnyView } from "../app/view.ts";
import { copyText } from "./clipboard.ts";
import { Menu, MenuItem } from "./menu.tsx";

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
            items.map(({ label, hint, run }) => (
              <MenuItem
                key={label}
                label={label}
                hint={hint}
                onSelect={() => {
                  close();
                  void run();
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
          view.reset();
        }}
      >
        Reset
      </button>
    </div>
  );
}

/** Where the clipboard is closed to pages, the address bar holds the same link. */
async function copied(text: string): Promise<string> {
  if (await copyText(text)) return "Link copied";
  history.replaceState(null, "", new URL(text).hash);
  return "Link is in the address bar";
}
