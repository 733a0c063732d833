/** Lab table: every result of a lab with its figures: published, ours, tolerance, verdict. */

import { formatSignificant } from "@redrive/core";
import type { LabReport, LabRow } from "@redrive/simulator";
import { formatTolerance, rowVerdict } from "@redrive/simulator/text";

export function LabTable({ report }: { readonly report: LabReport }) {
  return (
    <div class="table-wrap">
      <table class="table lab-table">
        <caption class="visually-hidden">{`Results of ${report.id}, seed ${report.seed}`}</caption>
        <thead>
          <tr>
            <th scope="col">result</th>
            <th scope="col" class="number">
              published
            </th>
            <th scope="col" class="number">
              ours
            </th>
            <th scope="col">tolerance</th>
            <th scope="col">verdict</th>
          </tr>
        </thead>
        <tbody>
          {report.rows.map((row) => (
            <ResultRow key={row.what} row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Longer text would push the numbers of the other rows apart. */
const MAX_CELL = 20;

function ResultRow({ row }: { readonly row: LabRow }) {
  const { what, published, ours, ok, core, deviation } = row;
  const verdict = rowVerdict(row);
  const isLong = typeof published === "string" && published.length > MAX_CELL;
  return (
    <tr class={verdict === "missed" ? "missed" : ""}>
      <th scope="row">
        {what}
        {core !== undefined && <small> formula in core: {formatSignificant(core)}</small>}
        {deviation !== undefined && <small> deviates: {deviation}</small>}
      </th>
      {isLong ? (
        <td colSpan={3}>{ok ? `${ours}, as published` : `published ${published}; ours ${ours}`}</td>
      ) : (
        <>
          <td class="number">{formatCell(published)}</td>
          <td class="number strong">{formatCell(ours)}</td>
          <td class="tolerance">{formatTolerance(row)}</td>
        </>
      )}
      <td>
        <span class={`lab-verdict ${verdict}`}>{verdict}</span>
      </td>
    </tr>
  );
}

function formatCell(value: number | string): string {
  return typeof value === "string" ? value : formatSignificant(value);
}
