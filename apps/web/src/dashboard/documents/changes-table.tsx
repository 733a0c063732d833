/** Changes table: what saving a document changes. */
import { formatCount } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { visibleText } from "../parts/visible-text.ts";
import type { Change } from "./changes.ts";

export function ChangesTable({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <Card title="What changes" aside={formatCount(changes.length, "field")} class="changes">
      {changes.length === 0 ? (
        <p class="faint">Nothing: the document has the same meaning.</p>
      ) : (
        <div class="table-wrap">
          <table class="table">
            <caption class="visually-hidden">Fields that change, before and after</caption>
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col">Now</th>
                <th scope="col">After</th>
              </tr>
            </thead>
            <tbody>
              {changes.map(({ field, before, after }) => (
                <tr key={field}>
                  <th scope="row">
                    <code>{visibleText(field)}</code>
                  </th>
                  <td class="before">{visibleText(before)}</td>
                  <td class="after">{visibleText(after)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
