/** Results: what the process inside the namespace has seen of each row, for the test that compares. */

export interface HostileResult {
  readonly summary: string;
  /** Rows of its attempt log. */
  readonly attempts: number;
  /** Requests on the wire. */
  readonly requests: number;
  readonly durationMs: number;
  /** How the next task for the same host ended. */
  readonly honest: string;
  readonly facts: unknown;
}

export interface TargetResult {
  readonly summary: string;
  readonly attempts: number;
  readonly error: string | null | undefined;
}

export interface Results {
  /** In the order of the tables. */
  readonly hostile: readonly HostileResult[];
  readonly target: readonly TargetResult[];
  readonly other: TargetResult;
  readonly rules: { readonly before: TargetResult; readonly after: TargetResult };
  /** Connections by address of the machine. */
  readonly hits: Readonly<Record<string, number>>;
  /** Creates that were refused, and tasks that are stored. */
  readonly refused: number;
  readonly stored: number;
  readonly health: number;
  readonly exitCode: number | null;
  readonly log: readonly string[];
  readonly errors: string;
}
