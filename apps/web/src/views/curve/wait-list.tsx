/** Wait list: the waits in milliseconds, each with the range that it was drawn from. */

import { formatInteger } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";

export function WaitList({ schedule }: { readonly schedule: Schedule }) {
  return (
    <div class="table-wrap tall waits">
      <table class="table">
        <thead>
          <tr>
            <th scope="col" class="number">
              Attempt
            </th>
            <th scope="col" class="number">
              Wait, ms
            </th>
            <th scope="col" class="number">
              Drawn from, ms
            </th>
            <th scope="col" class="number">
              Starts at, ms
            </th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row" class="number">
              1
            </th>
            <td class="number">0</td>
            <td class="number">immediate</td>
            <td class="number">0</td>
          </tr>
          {schedule.waits.map(({ attempt, delayMs, lowMs, highMs, sumMs }) => (
            <tr key={attempt}>
              <th scope="row" class="number">
                {attempt + 1}
              </th>
              <td class="number strong">{formatInteger(delayMs)}</td>
              <td class="number">
                {lowMs === highMs ? "exact" : `${formatInteger(lowMs)} to ${formatInteger(highMs)}`}
              </td>
              <td class="number">{formatInteger(sumMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
