/** Lane due: when the earliest waiting task of a lane is due, in one partition. */
import type { Lane } from "./task.ts";

export interface LaneDue {
  readonly tenantId: string;
  readonly destination: string;
  readonly lane: Lane;
  readonly partition: number;
  readonly dueAt: number;
}
