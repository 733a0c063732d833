/** Copy button: copies a text and says whether that worked, for a moment. */
import { useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { copyText } from "../../components/clipboard.ts";

const SHOWN_MS = 2500;

export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const status = useSignal("");
  const copy = async () => {
    status.value = (await copyText(text)) ? "Copied" : "The browser denied access";
    systemClock.alarm(SHOWN_MS, () => {
      status.value = "";
    });
  };
  return (
    <button type="button" class="button" onClick={copy}>
      <span aria-live="polite">{status.value === "" ? label : status.value}</span>
    </button>
  );
}
