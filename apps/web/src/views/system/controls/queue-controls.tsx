/** Queue controls: the fields of a scenario with a message queue and workers. */
import type { QueueDocument } from "@redrive/simulator";
import { Card } from "../../../parts/card.tsx";
import { DurationField } from "../../../parts/duration-field.tsx";
import { Field } from "../../../parts/field.tsx";
import type { SliderRange } from "../../../parts/slider-scale.ts";
import { merged, middleOf, withMiddle } from "../document/document.ts";
import { edit } from "../state/system-store.ts";

type NumberOf<T> = {
  [K in keyof T]-?: NonNullable<T[K]> extends number ? K : never;
}[keyof T];

interface QueueField extends SliderRange {
  readonly field: NumberOf<QueueDocument>;
  readonly label: string;
  readonly unit: string;
  readonly byDefault: number;
  /** Shown as a percentage. */
  readonly isShare?: boolean;
}

const SHARE = { unit: "%", min: 0, max: 100, isShare: true, byDefault: 0 } as const;

const QUEUE_FIELDS: readonly QueueField[] = [
  {
    field: "ratePerSecond",
    label: "Messages",
    unit: "a second",
    min: 1,
    max: 10_000,
    scale: "log",
    byDefault: 10,
  },
  { field: "workers", label: "Workers", unit: "workers", min: 1, max: 1000, byDefault: 4 },
  {
    field: "visibilityMs",
    label: "Handed out again after",
    unit: "ms",
    min: 1,
    max: 600_000,
    scale: "log",
    byDefault: 30_000,
  },
  {
    field: "maxReceives",
    label: "Set aside after",
    unit: "receives",
    min: 1,
    max: 100,
    byDefault: 5,
  },
  { field: "poisonShare", label: "Can never succeed", ...SHARE },
  { field: "failureRate", label: "Runs that fail by chance", ...SHARE },
  {
    field: "crashesPerSecond",
    label: "Crashes of workers",
    unit: "a second",
    min: 0,
    max: 10,
    step: 0.1,
    byDefault: 0,
  },
  {
    field: "commitMs",
    label: "Done work is told every",
    unit: "ms",
    min: 0,
    max: 60_000,
    scale: "log",
    byDefault: 0,
  },
];

export function QueueControls({ document }: { readonly document: QueueDocument }) {
  return (
    <Card title="Queue and workers">
      {QUEUE_FIELDS.map(({ field, isShare = false, byDefault, ...rest }) => {
        const value = document[field] ?? byDefault;
        return (
          <Field
            key={field}
            {...rest}
            value={isShare ? Math.round(value * 1000) / 10 : value}
            onInput={(next) =>
              edit((one: QueueDocument) => merged(one, { [field]: isShare ? next / 100 : next }))
            }
          />
        );
      })}
      <DurationField
        label="Work of a message"
        value={middleOf(document.work ?? 100)}
        min={1}
        max={60_000}
        onInput={(ms) =>
          edit((one: QueueDocument) => ({
            ...one,
            work: withMiddle(one.work ?? { kind: "EXPONENTIAL", meanMs: 100 }, ms),
          }))
        }
      />
    </Card>
  );
}
