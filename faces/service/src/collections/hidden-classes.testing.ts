/** Hidden classes of V8, for tests: counts how many different ones objects have. */
import { setFlagsFromString } from "node:v8";
import { runInThisContext } from "node:vm";

/** Only V8 itself knows the hidden class of an object. */
setFlagsFromString("--allow-natives-syntax");
const areAlike: (a: object, b: object) => boolean = runInThisContext(
  "(a, b) => %HaveSameMap(a, b)",
);

/** The number of hidden classes in the second half; V8 learns the fields from the first half. */
export function countClasses(values: readonly object[]): number {
  const kinds: object[] = [];
  for (const value of values.slice(values.length / 2)) {
    if (!kinds.some((kind) => areAlike(kind, value))) kinds.push(value);
  }
  return kinds.length;
}
