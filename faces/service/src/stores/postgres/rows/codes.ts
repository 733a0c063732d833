/** Codes: the numbers that the tables hold for statuses and lanes. */
import { LANES, type Lane, TASK_STATUSES, type TaskStatus } from "../../../model/task.ts";

export function statusNumber(status: TaskStatus): number {
  return TASK_STATUSES.indexOf(status);
}

export function statusName(number: number): TaskStatus {
  const name = TASK_STATUSES[number];
  if (name === undefined) throw new Error(`unknown status ${number}`);
  return name;
}

export function laneNumber(lane: Lane): number {
  return LANES.indexOf(lane);
}

export function laneName(number: number): Lane {
  const name = LANES[number];
  if (name === undefined) throw new Error(`unknown lane ${number}`);
  return name;
}
