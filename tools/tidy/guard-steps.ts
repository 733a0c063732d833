/**
 * Guard steps: checks that only core's admission enters and leaves guards. A face that did so itself
 * could use another order.
 */
import { type Finding, isCode, isForTests, isProduct, type Source } from "./source.ts";
import { codeTokensOf } from "./tokens.ts";

/** Files that may step a guard, with the reason. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  "faces/service/src/http/access.ts": "limits the rate of each API key, which is not a destination",
  "faces/simulator/src/labs/budgets.ts": "compares single guards with published results",
};

/**
 * The exported functions of core that change a guard. The others are not exported. A test compares
 * this list with core's index.
 */
export const STEPS: ReadonlySet<string> = new Set([
  "takeRate",
  "enterThrottle",
  "recordThrottleResponse",
  "recordLatency",
]);

export function guardSteps(sources: readonly Source[]): Finding[] {
  return sources
    .filter((source) => isCode(source) && isProduct(source.path) && !isForTests(source.path))
    .filter(({ path }) => !path.startsWith("core/") && !Object.hasOwn(EXCEPTIONS, path))
    .flatMap(({ path, text }) =>
      importedFromCore(text)
        .filter(({ value }) => STEPS.has(value))
        .map(({ value, line }) => ({
          path,
          line,
          message: `${value}: ask core's Admission instead of stepping a guard`,
        })),
    );
}

/** The tokens between `import` and `from "@redrive/core"`. */
function importedFromCore(text: string) {
  const tokens = codeTokensOf(text);
  return tokens.flatMap((token, index) => {
    if (token.value !== "import") return [];
    const end = tokens.findIndex(({ value }, at) => at > index && value === "from");
    const specifier = tokens[end + 1]?.value ?? "";
    return end > 0 && /^["']@redrive\/core["']$/u.test(specifier) ? tokens.slice(index, end) : [];
  });
}
