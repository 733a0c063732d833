/** Doctor check: the result of one check of `redrive doctor`. */

export interface Check {
  readonly name: string;
  readonly state: "ok" | "warn" | "fail";
  readonly found: string;
  /** How to fix the problem. Empty if there is none. */
  readonly fix: string;
}
