/** Policy preview: the policy that the answers give so far. Defaults are dimmed. */
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { adviceQuery, answeredCount, asked } from "./advisor-store.ts";
import { describeField, fieldOrder } from "./field-labels.ts";

export function PolicyPreview() {
  const now = adviceQuery.value.value;
  const count = answeredCount.value;
  const total = asked.value.length;
  return (
    <Card title="Policy so far" aside={`${count} of ${total} answered`}>
      {adviceQuery.problem.value !== "" && <Notice tone="bad">{adviceQuery.problem.value}</Notice>}
      {count === 0 && (
        <p class="faint small-text">
          Dimmed values are defaults. Each answer can change some of them.
        </p>
      )}
      <dl class="so-far" aria-live="polite" aria-busy={adviceQuery.isBusy.value}>
        {namesIn(now?.fields ?? {}).map((name) => {
          const { label, text } = describeField(name, now?.fields[name]);
          return (
            <div key={name} class={stateOf(name)}>
              <dt>{label}</dt>
              <dd>{text}</dd>
            </div>
          );
        })}
      </dl>
    </Card>
  );
}

/** Known fields first, in the order of the controls of the other views. */
function namesIn(fields: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Object.keys(fields);
  const known = fieldOrder.filter((name) => names.includes(name));
  return [...known, ...names.filter((name) => !fieldOrder.includes(name))];
}

function stateOf(name: string): string {
  const steps = adviceQuery.value.value?.steps ?? [];
  const isAll = answeredCount.value === asked.value.length;
  const last = steps.at(-1);
  if (!isAll && last !== undefined && name in last.changes) return "set new";
  return isAll || steps.some(({ changes }) => name in changes) ? "set" : "usual";
}
