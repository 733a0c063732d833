/** Lazy page: a page whose code is loaded when it is first opened. */
import { type Signal, signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { Notice } from "../../components/notice.tsx";

type Loaded = { readonly Page: FunctionComponent } | { readonly problem: string };

export interface LazyPage {
  readonly Page: FunctionComponent;
  /** Loads the code, so that the page opens at once later. */
  preload(): void;
}

export function lazyPage(load: () => Promise<FunctionComponent>): LazyPage {
  const loaded: Signal<Loaded | undefined> = signal(undefined);
  let isStarted = false;
  const preload = () => {
    if (isStarted) return;
    isStarted = true;
    load().then(
      (Page) => {
        loaded.value = { Page };
      },
      (error: Error) => {
        isStarted = false;
        loaded.value = { problem: error.message };
      },
    );
  };
  function Page() {
    preload();
    const found = loaded.value;
    if (found === undefined) return <p class="loading">Loading…</p>;
    if ("Page" in found) return <found.Page />;
    return (
      <Notice tone="bad">
        This page could not be loaded: {found.problem}. If the service was updated, reload the page.
      </Notice>
    );
  }
  return { Page, preload };
}
