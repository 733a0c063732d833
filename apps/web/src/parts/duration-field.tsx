/** Span field: a field of milliseconds, logarithmic, that says below what they are in people's units. */
import { formatDuration } from "@redrive/simulator/words";
import { Field, type FieldProps } from "./field.tsx";

export function DurationField(props: Omit<FieldProps, "unit" | "scale" | "spell">) {
  return <Field {...props} unit="ms" scale="log" format={formatDuration} />;
}
