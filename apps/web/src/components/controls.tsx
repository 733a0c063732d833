/**
 * Controls: the inputs of a form. A field is a number with label and unit, set by slider or by
 * typing; the others are a choice between visible options, a menu, and a checkbox.
 */
import { formatDuration } from "@redrive/core";
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

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

/** A logarithmic field for milliseconds that also shows the value in a larger unit. */
export function DurationField(props: Omit<FieldProps, "unit" | "scale" | "format">) {
  return <Field {...props} unit="ms" scale="log" format={formatDuration} />;
}

interface Segment<T extends string> {
  readonly value: T;
  readonly label: string;
  /** Why the option is disabled. Absent if it is enabled. */
  readonly disabledReason?: string;
}

interface SegmentedProps<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly Segment<T>[];
  readonly isLabelHidden?: boolean;
  /** Two columns, for many options or long labels. */
  readonly isWide?: boolean;
  onChange(value: T): void;
}

/** A choice between a few visible options. Uses radio buttons, so that arrow keys work. */
export function Segmented<T extends string>(props: SegmentedProps<T>) {
  const { label, value, options, isLabelHidden = false, isWide = false, onChange } = props;
  const name = useId();
  return (
    <fieldset class="segmented">
      <legend class={isLabelHidden ? "visually-hidden" : ""}>{label}</legend>
      <div class={isWide ? "segments wide" : "segments"}>
        {options.map((option) => (
          <label key={option.value} title={option.disabledReason ?? ""}>
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === value}
              disabled={option.disabledReason !== undefined}
              onChange={() => onChange(option.value)}
            />
            <span>{option.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

export interface SelectGroup {
  readonly label: string;
  readonly options: readonly { readonly value: string; readonly label: string }[];
}

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly groups: readonly SelectGroup[];
  /** The label of the empty value "". */
  readonly emptyLabel?: string;
  onChange(value: string): void;
}

/** A menu of grouped options. */
export function Select({ label, value, groups, emptyLabel, onChange }: SelectProps) {
  const id = useId();
  return (
    <div class="select">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {emptyLabel !== undefined && <option value="">{emptyLabel}</option>}
        {groups.map((group) => (
          <optgroup key={group.label} label={group.label}>
            {group.options.map((option) => (
              <option key={option.value} value={option.value}>
                {option.label}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </div>
  );
}

interface ToggleProps {
  readonly checked: boolean;
  readonly children: ComponentChildren;
  onChange(checked: boolean): void;
}

/** A labeled checkbox. */
export function Toggle({ checked, children, onChange }: ToggleProps) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{children}</span>
    </label>
  );
}

/** An error message below a field; nothing if the message is empty. */
export function Problem({ message }: { readonly message: string }) {
  if (message === "") return null;
  return (
    <p class="problem" role="alert">
      {message}
    </p>
  );
}

// Slider scale: converts between a value and its position on a linear or logarithmic slider.

export interface SliderRange {
  readonly min: number;
  readonly max: number;
  /** Default: linear. A logarithmic scale that starts at 0 goes to 1 with its first step. */
  readonly scale?: "linear" | "log";
  /** Values are multiples of it. Default: 1. */
  readonly step?: number;
}

/** The number of steps of a logarithmic slider. */
export const LOG_STEPS = 1000;

/** The position on a logarithmic slider, 0 to `LOG_STEPS`. */
export function positionOf(value: number, { min, max }: SliderRange): number {
  if (value <= min) return 0;
  const from = Math.log(Math.max(1, min));
  const fraction = (Math.log(Math.max(1, value)) - from) / (Math.log(max) - from);
  return Math.min(LOG_STEPS, Math.max(min === 0 ? 1 : 0, Math.round(fraction * LOG_STEPS)));
}

/** The value at a position, with two significant digits: 1,200 instead of 1,187. */
export function valueAt(position: number, { min, max, step = 1 }: SliderRange): number {
  if (position <= 0) return min;
  if (position >= LOG_STEPS) return max;
  const from = Math.log(Math.max(1, min));
  const value = Math.exp(from + (position / LOG_STEPS) * (Math.log(max) - from));
  const rounded = Number(value.toPrecision(2));
  return clamp(Math.round(rounded / step) * step, { min, max });
}

function clamp(value: number, { min, max }: SliderRange): number {
  return Math.min(max, Math.max(min, value));
}
