/** Duration field: a logarithmic field for milliseconds that also shows the value in a larger unit. */
import { formatDuration } from "@redrive/core";
import { Field, type FieldProps } from "./field.tsx";

export function DurationField(props: Omit<FieldProps, "unit" | "scale" | "format">) {
  return <Field {...props} unit="ms" scale="log" format={formatDuration} />;
}
