/** Lazy code dialog: loads the code dialog when it is first opened. */
import { useSignal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import { shownCode } from "./code-dialog-state.ts";

type Dialog = typeof import("./code-dialog.tsx").CodeDialog;

export function LazyCodeDialog() {
  const loaded = useSignal<
    { readonly Dialog: FunctionComponent<Parameters<Dialog>[0]> } | undefined
  >(undefined);
  const shown = shownCode.value;
  useEffect(() => {
    if (shown === undefined || loaded.value !== undefined) return;
    void import("./code-dialog.tsx").then(({ CodeDialog }) => {
      loaded.value = { Dialog: CodeDialog };
    });
  }, [shown, loaded]);
  if (shown === undefined || loaded.value === undefined) return null;
  const { Dialog } = loaded.value;
  return <Dialog {...shown} />;
}
