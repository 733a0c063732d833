/** Select: a menu of grouped options. */
import { useId } from "preact/hooks";

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
