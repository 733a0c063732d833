/** Policy picker: the presets and what others really do, to fill the controls with. */
import { useSignal } from "@preact/signals";
import { presets } from "@redrive/core";
import { useEffect } from "preact/hooks";
import { Select, type SelectGroup } from "../../parts/select.tsx";

interface PolicyPickerProps {
  readonly label?: string;
  /** A name of the list, or empty. */
  readonly value: string;
  readonly emptyLabel: string;
  onPick(name: string): void;
}

const PRESETS: SelectGroup = {
  label: "Presets",
  options: Object.keys(presets).map((name) => ({ value: name, label: name })),
};

export function PolicyPicker({
  label = "Preset",
  value,
  emptyLabel: none,
  onPick,
}: PolicyPickerProps) {
  const others = useSignal<readonly SelectGroup[]>([]);
  useEffect(
    () =>
      onFirstTouch(() => {
        void import("./catalog.ts").then(({ catalog: catalogue }) => {
          const options = catalogue.map(({ id, title }) => ({ value: id, label: title }));
          others.value = [{ label: "What others do", options }];
        });
      }),
    [others],
  );
  const groups = [PRESETS, ...others.value];
  return <Select label={label} value={value} emptyLabel={none} groups={groups} onChange={onPick} />;
}

const TOUCHES = ["pointermove", "pointerdown", "keydown", "focusin"] as const;

/** Nobody has read the list before they touch the page, and until then it need not be loaded. */
function onFirstTouch(load: () => void): () => void {
  const stop = () => {
    for (const touch of TOUCHES) removeEventListener(touch, first);
  };
  const first = () => {
    stop();
    load();
  };
  for (const touch of TOUCHES) addEventListener(touch, first);
  return stop;
}
