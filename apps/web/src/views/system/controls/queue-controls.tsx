/** Queue controls: the fields of a scenario with a message queue and workers. */
import type { QueueDocument } from "@redrive/simulator";
import { Card } from "../../../components/card.tsx";
import { DurationField } from "../../../components/duration-field.tsx";
import { Field } from "../../../components/field.tsx";
import type { SliderRange } from "../../../components/slider-scale.ts";
import { merged, middleOf, withMiddle } from "../document/document.ts";
import { edit } from "../state/system-store.ts";

type NumberOf<T> = {
  [K in keyof T]-?: NonNullable<T[K]> extends number ? K : never;
}[keyof T];

interface QueueField extends SliderRange {
  readonly field: NumberOf<QueueDocument>;
  readonly label: string;
  readonly unit: string;
  readonly defaultValue: number;
  /** Shown as a percentage. */
  readonly isShare?: boolean;
}

const SHARE = { unit: "%", min: 0, max: 100, isShare: true, defaultValue: 0 } as const;

const QUEUE_FIELDS: readonly QueueField[] = [
  {
    field: "ratePerSecond",
    label: "Messages",
    unit: "per second",
    min: 1,
    max: 10_000,
    scale: "log",
    defaultValue: 10,
  },
  { field: "workers", label: "Workers", unit: "workers", min: 1, max: 1000, defaultValue: 4 },
  {
    field: "visibilityMs",
    label: "Redelivered after",
    unit: "ms",
    min: 1,
    max: 600_000,
    scale: "log",
    defaultValue: 30_000,
  },
  {
    field: "maxReceives",
    label: "Dead-lettered after",
    unit: "receives",
    min: 1,
    max: 100,
    defaultValue: 5,
  },
  { field: "poisonShare", label: "Poison messages", ...SHARE },
  { field: "failureRate", label: "Random failures", ...SHARE },
  {
    field: "crashesPerSecond",
    label: "Worker crashes",
    unit: "per second",
    min: 0,
    max: 10,
    step: 0.1,
    defaultValue: 0,
  },
  {
    field: "commitMs",
    label: "Commit interval",
    unit: "ms",
    min: 0,
    max: 60_000,
    scale: "log",
    defaultValue: 0,
  },
];

export function QueueControls({ document }: { readonly document: QueueDocument }) {
  return (
    <Card title="Queue and workers">
      {QUEUE_FIELDS.map(({ field, isShare = false, defaultValue, ...rest }) => {
        const value = document[field] ?? defaultValue;
        return (
          <Field
            key={field}
            {...rest}
            value={isShare ? Math.round(value * 1000) / 10 : value}
            onInput={(next) =>
              edit((queue: QueueDocument) =>
                merged(queue, { [field]: isShare ? next / 100 : next }),
              )
            }
          />
        );
      })}
      <DurationField
        label="Work per message"
        value={middleOf(document.work ?? 100)}
        min={1}
        max={60_000}
        onInput={(ms) =>
          edit((queue: QueueDocument) => ({
            ...queue,
            work: withMiddle(queue.work ?? { kind: "EXPONENTIAL", meanMs: 100 }, ms),
          }))
        }
      />
    </Card>
  );
}
