/** Field: a number with label and unit, set by slider or by typing. The slider can be logarithmic. */
import { useId } from "preact/hooks";
import { clamp, LOG_STEPS, positionOf, type SliderRange, valueAt } from "./slider-scale.ts";

export interface FieldProps extends SliderRange {
  readonly label: string;
  readonly value: number;
  /** For example "ms" or "attempts"; always shown. */
  readonly unit: string;
  /** A readable form of the value, for example "20 s" for 20,000 ms. */
  readonly format?: (value: number) => string;
  readonly hint?: string;
  /** The largest value that can be typed; the slider ends at `max`. Default: `max`. */
  readonly maxTyped?: number;
  readonly isDisabled?: boolean;
  onInput(value: number): void;
}

export function Field(props: FieldProps) {
  const {
    label,
    value,
    unit,
    min,
    max,
    step = 1,
    format,
    hint,
    isDisabled = false,
    onInput,
  } = props;
  const id = useId();
  const formatted = format === undefined ? `${value} ${unit}` : format(value);
  return (
    <div class="field">
      <div class="field-head">
        <label for={id}>{label}</label>
        {formatted !== `${value} ${unit}` && <small class="formatted">{formatted}</small>}
        <span class="field-value">
          <input
            id={id}
            type="number"
            inputMode="decimal"
            min={min}
            max={props.maxTyped ?? max}
            step={step === 1 ? "any" : step}
            value={value}
            disabled={isDisabled}
            aria-describedby={hint === undefined ? undefined : `${id}-hint`}
            onChange={(event) => applyTyped(event.currentTarget, props)}
          />
          <span class="unit">{unit}</span>
        </span>
      </div>
      <input
        type="range"
        aria-label={label}
        aria-valuetext={formatted}
        disabled={isDisabled}
        {...sliderProps(props)}
        onInput={(event) => onInput(fromSlider(Number(event.currentTarget.value), props))}
      />
      {hint !== undefined && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

function sliderProps(props: FieldProps) {
  const { value, min, max, step = 1, scale } = props;
  if (scale === "log") return { min: 0, max: LOG_STEPS, step: 5, value: positionOf(value, props) };
  return { min, max, step, value };
}

function fromSlider(position: number, props: FieldProps): number {
  return props.scale === "log" ? valueAt(position, props) : position;
}

/** Rounds typed values if the step is 1. */
function rounded(value: number, { step = 1 }: FieldProps): number {
  return step === 1 ? Math.round(value) : value;
}

/** Corrects an invalid value in the input, so that the field shows what is used. */
function applyTyped(input: HTMLInputElement, props: FieldProps): void {
  const { value, onInput } = props;
  const number =
    input.value === ""
      ? value
      : clamp(rounded(Number(input.value), props), { ...props, max: props.maxTyped ?? props.max });
  input.value = String(number);
  onInput(number);
}
