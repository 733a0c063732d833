/** Delay list field: a typed list of waits, and the jitter of each wait. */
import { useSignal } from "@preact/signals";
import { type JitterType, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { useId } from "preact/hooks";
import { Problem } from "../../components/problem.tsx";
import { Segmented } from "../../components/segmented.tsx";
import { formatDelays, parseDelays } from "./delay-list.ts";

interface DelayListFieldProps {
  readonly document: PolicyDocument;
  onChange(next: PolicyDocument): void;
}

type ListJitter = Exclude<JitterType, "DECORRELATED">;

const JITTERS: readonly { readonly value: ListJitter; readonly label: string }[] = [
  { value: "NONE", label: "none" },
  { value: "FULL", label: "full" },
  { value: "EQUAL", label: "equal" },
  { value: "PROPORTIONAL", label: "±" },
];

export function DelayListField({ document, onChange }: DelayListFieldProps) {
  const id = useId();
  const problem = useSignal("");
  const read = (text: string) => {
    const delaysMs = parseDelays(text);
    problem.value = typeof delaysMs === "string" ? delaysMs : "";
    if (typeof delaysMs !== "string") onChange({ ...document, delaysMs });
  };
  return (
    <>
      <div class="select">
        <label for={id}>List of waits</label>
        <textarea
          id={id}
          class="text-area"
          rows={3}
          spellcheck={false}
          value={formatDelays(document.delaysMs ?? [])}
          onChange={(event) => read(event.currentTarget.value)}
        />
        <Problem message={problem.value} />
      </div>
      <Segmented
        label="Jitter of each wait"
        value={resolvePolicy(document).jitterType as ListJitter}
        options={JITTERS}
        onChange={(jitterType) => onChange({ ...document, jitterType })}
      />
    </>
  );
}
