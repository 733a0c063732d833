/** Field: a number with its name and unit, by slider or by typing; the slider may be logarithmic. */
import { useId } from "preact/hooks";
import { clamp, LOG_STEPS, positionOf, type SliderRange, valueAt } from "./slider-scale.ts";

export interface FieldProps extends SliderRange {
  readonly label: string;
  readonly value: number;
  /** "ms", "attempts": always shown. */
  readonly unit: string;
  /** The value as people say it, where that reads better than the bare number: "20 s". */
  readonly format?: (value: number) => string;
  readonly hint?: string;
  /** The most that may be typed; the slider ends at `max`. Default: `max`. */
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
    format: spell,
    hint,
    isDisabled = false,
    onInput,
  } = props;
  const id = useId();
  const spelt = spell === undefined ? `${value} ${unit}` : spell(value);
  return (
    <div class="field">
      <div class="field-head">
        <label for={id}>{label}</label>
        {spelt !== `${value} ${unit}` && <small class="spelt">{spelt}</small>}
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
            onChange={(event) => typed(event.currentTarget, props)}
          />
          <span class="unit">{unit}</span>
        </span>
      </div>
      <input
        type="range"
        aria-label={label}
        aria-valuetext={spelt}
        disabled={isDisabled}
        {...sliderProps(props)}
        onInput={(event) => onInput(slid(Number(event.currentTarget.value), props))}
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

function slid(position: number, props: FieldProps): number {
  return props.scale === "log" ? valueAt(position, props) : position;
}

/** Whole numbers stay whole, whatever is typed. */
function rounded(value: number, { step = 1 }: FieldProps): number {
  return step === 1 ? Math.round(value) : value;
}

/** What is no number in range is put right where it stands, so that nobody wonders what counts. */
function typed(input: HTMLInputElement, props: FieldProps): void {
  const { value, onInput } = props;
  const number =
    input.value === ""
      ? value
      : clamp(rounded(Number(input.value), props), { ...props, max: props.maxTyped ?? props.max });
  input.value = String(number);
  onInput(number);
}
