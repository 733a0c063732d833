/** Delay fields: the first delay, the longest delay and the attempts of a policy, kept in order. */
import type { PolicyDocument } from "@redrive/core";
import { DurationField } from "../../components/duration-field.tsx";
import { Field, type FieldProps } from "../../components/field.tsx";

type Limits = Partial<Pick<FieldProps, "maxTyped" | "isDisabled">>;

interface DelayFieldsProps {
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly maxAttempts: number;
  readonly base: Limits & { readonly min: number };
  readonly max?: Limits;
  readonly attempts: Limits & { readonly min: number };
  /** Gets only the fields that change. */
  onChange(change: PolicyDocument): void;
}

export function DelayFields(props: DelayFieldsProps) {
  const { initialDelayMs, maxDelayMs, maxAttempts, base, max, attempts, onChange } = props;
  return (
    <>
      <DurationField
        label="Base"
        value={initialDelayMs}
        max={60_000}
        {...base}
        onInput={(value) =>
          onChange({ initialDelayMs: value, maxDelayMs: Math.max(value, maxDelayMs) })
        }
      />
      <DurationField
        label="Max"
        value={maxDelayMs}
        min={1}
        max={3_600_000}
        {...max}
        onInput={(value) =>
          onChange({ maxDelayMs: value, initialDelayMs: Math.min(value, initialDelayMs) })
        }
      />
      <Field
        label="Attempts"
        unit="calls"
        value={maxAttempts}
        max={20}
        {...attempts}
        onInput={(value) => onChange({ maxAttempts: value })}
      />
    </>
  );
}
