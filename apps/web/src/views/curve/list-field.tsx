/** List field: waits typed one by one, and how chance treats each of them. */
import { useSignal } from "@preact/signals";
import { type JitterType, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { useId } from "preact/hooks";
import { Segmented } from "../../parts/segmented.tsx";
import { readDelays, spellDelays } from "./delay-list.ts";

interface ListFieldProps {
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

export function ListField({ document, onChange }: ListFieldProps) {
  const id = useId();
  const problem = useSignal("");
  const read = (text: string) => {
    const delaysMs = readDelays(text);
    problem.value = typeof delaysMs === "string" ? delaysMs : "";
    if (typeof delaysMs !== "string") onChange({ ...document, delaysMs });
  };
  return (
    <>
      <div class="select">
        <label for={id}>Waits, one by one</label>
        <textarea
          id={id}
          class="text-area"
          rows={3}
          spellcheck={false}
          value={spellDelays(document.delaysMs ?? [])}
          onChange={(event) => read(event.currentTarget.value)}
        />
        {problem.value !== "" && (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
      </div>
      <Segmented
        label="Jitter of each"
        value={resolvePolicy(document).jitterType as ListJitter}
        options={JITTERS}
        onChange={(jitterType) => onChange({ ...document, jitterType })}
      />
    </>
  );
}
