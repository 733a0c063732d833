/** Segmented: a choice between a few visible options. Uses radio buttons, so that arrow keys work. */
import { useId } from "preact/hooks";

export interface Segment<T extends string> {
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
