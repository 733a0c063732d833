/** Lab requests: the labs, in their own module because they are large and only one view needs them. */
import { labs } from "@redrive/simulator";

export { runLab } from "@redrive/simulator";

/** What is known about a lab before it runs. */
export interface LabEntry {
  readonly id: string;
  readonly title: string;
  readonly source: string;
  readonly lesson: string;
}

export function listLabs(): readonly LabEntry[] {
  return labs.map(({ id, title, source, lesson }) => ({ id, title, source, lesson }));
}
