/** Policy picker: a menu of the presets and of the catalog. */
import { useSignal } from "@preact/signals";
import { presets } from "@redrive/core";
import { useEffect } from "preact/hooks";
import { Select, type SelectGroup } from "../../components/select.tsx";

interface PolicyPickerProps {
  readonly label?: string;
  /** The name of a preset or catalog entry, or empty. */
  readonly value: string;
  readonly emptyLabel: string;
  onPick(name: string): void;
}

const PRESETS: SelectGroup = {
  label: "Presets",
  options: Object.keys(presets).map((name) => ({ value: name, label: name })),
};

export function PolicyPicker({ label = "Preset", value, emptyLabel, onPick }: PolicyPickerProps) {
  const catalogGroups = useSignal<readonly SelectGroup[]>([]);
  useEffect(
    () =>
      onFirstInput(() => {
        void import("./catalog.ts").then(({ catalog }) => {
          const options = catalog.map(({ id, title }) => ({ value: id, label: title }));
          catalogGroups.value = [{ label: "Other libraries", options }];
        });
      }),
    [catalogGroups],
  );
  const groups = [PRESETS, ...catalogGroups.value];
  return (
    <Select label={label} value={value} emptyLabel={emptyLabel} groups={groups} onChange={onPick} />
  );
}

const INPUT_EVENTS = ["pointermove", "pointerdown", "keydown", "focusin"] as const;

/** Delays loading the catalog until the reader uses the page. */
function onFirstInput(load: () => void): () => void {
  const stop = () => {
    for (const type of INPUT_EVENTS) removeEventListener(type, first);
  };
  const first = () => {
    stop();
    load();
  };
  for (const type of INPUT_EVENTS) addEventListener(type, first);
  return stop;
}
