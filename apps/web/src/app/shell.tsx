/** Shell: the frame around every view of the simulator: header, tabs, toolbar, and the controls beside the stage. */

import { Explanation } from "../components/explanation.tsx";
import { Notice } from "../components/notice.tsx";
import { LazyCodeDialog } from "../exports/lazy-code-dialog.tsx";
import type { AnyView } from "../views/view.ts";
import { Header } from "./header.tsx";
import { addressProblem, dismissProblem, openView } from "./navigation.ts";
import { ShortcutDialog } from "./shortcut-dialog.tsx";
import { isShortcutDialogOpen, shortcuts } from "./shortcuts.ts";
import { Toolbar } from "./toolbar.tsx";
import { entryOf, viewEntries } from "./view-list.ts";

export function Shell() {
  const view = openView.value;
  return (
    <>
      <button type="button" class="button skip" onClick={skipToMain}>
        Skip to the chart
      </button>
      <Header page="simulator">
        <KeysButton />
      </Header>
      <Tabs view={view} />
      <main id="main" tabIndex={-1}>
        {addressProblem.value !== "" && (
          <Notice tone="bad" onDismiss={dismissProblem}>
            {addressProblem.value}
          </Notice>
        )}
        {view === undefined ? <p class="loading">Loading…</p> : <Workbench view={view} />}
      </main>
      <ShortcutDialog shown={isShortcutDialogOpen} shortcuts={shortcuts} />
      <LazyCodeDialog />
    </>
  );
}

/** A button, not a link, because the hash holds the state of the view. */
function skipToMain(): void {
  document.getElementById("main")?.focus();
}

function KeysButton() {
  return (
    <button
      type="button"
      class="button quiet keys-button"
      aria-haspopup="dialog"
      onClick={() => {
        isShortcutDialogOpen.value = true;
      }}
    >
      Shortcuts <kbd>?</kbd>
    </button>
  );
}

function Tabs({ view }: { readonly view: AnyView | undefined }) {
  return (
    <div class="tabs">
      <nav aria-label="Views">
        {viewEntries.map(({ id, label }) => (
          <a key={id} href={`#${id}`} aria-current={view?.id === id ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      {view !== undefined && <Toolbar view={view} />}
    </div>
  );
}

function Workbench({ view }: { readonly view: AnyView }) {
  const { Controls, Stage, explanation, id } = view;
  return (
    <div class="workbench">
      <section class="controls" aria-label="Controls">
        <Controls />
      </section>
      <section class="stage" aria-labelledby="view-title">
        <h1 id="view-title" class="visually-hidden">
          {entryOf(id).label}
        </h1>
        <Explanation>{explanation}</Explanation>
        <Stage />
      </section>
    </div>
  );
}
