/** Target code: code for one target, and what it does differently. */

export interface TargetCode {
  readonly language: "ts" | "json" | "ini" | "python" | "go" | "java" | "csharp" | "rust";
  readonly text: string;
  /** Sentences on what the target does differently. */
  readonly notes: readonly string[];
}
