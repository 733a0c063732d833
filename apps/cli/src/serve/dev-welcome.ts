/** Doors: what `redrive dev` shows first: three ways in, each to be pasted as it is. */

export interface DevWelcomeOptions {
  /** Of the service, without a slash at its end. */
  readonly url: string;
  readonly flakyUrl: string;
  readonly dataFile: string;
  /** What runs the command line: `npx redrive`. */
  readonly command: string;
}

/** Tries for about ten seconds, so that giving up can be watched. */
export const DEMO_POLICY = {
  policyId: "demo",
  description: "For trying things out: five attempts within about ten seconds.",
  maxAttempts: 5,
  initialDelayMs: 500,
  maxDelayMs: 4000,
  jitterType: "EQUAL",
  totalBudgetMs: 60_000,
  attemptTimeoutMs: 5000,
} as const;

/** The command line looks there by itself. */
const DEFAULT_URL = "http://127.0.0.1:7337";

/** No comments behind the commands: zsh would take them for arguments. */
export function devWelcome({
  url,
  flakyUrl,
  dataFile,
  command,
}: DevWelcomeOptions): readonly string[] {
  const task = { targetUrl: `${flakyUrl}/orders`, policyId: "demo", json: { order: 42 } };
  const flag = url === DEFAULT_URL ? "" : ` --url ${url}`;
  return [
    `Redrive keeps its data in ${dataFile}. Three doors, for a second terminal in this folder:`,
    "",
    "1. Hand over a call, to a destination that fails one time in five:",
    "",
    `   curl --json '${JSON.stringify(task)}' ${url}/retry-tasks`,
    "",
    "   Break the destination, hand over another, and watch it become a dead letter:",
    "",
    `   curl '${flakyUrl}/break?for=30s'`,
    `   ${command} tasks tail${flag}`,
    "",
    "   Mend the destination, and send the dead letter once more:",
    "",
    `   curl ${flakyUrl}/mend`,
    `   ${command} dlq redrive${flag}`,
    "",
    `2. Look at it: ${url}/ui/simulator simulates policies, ${url}/docs is the API.`,
    "",
    "3. Retry in your own process, in a file of this folder, say try.mjs:",
    "",
    '   import { retry } from "redrive";',
    "   const load = async () => {",
    `     const response = await fetch("${flakyUrl}/orders");`,
    "     if (response.ok) return response.json();",
    '     throw Object.assign(new Error("refused"), { status: response.status });',
    "   };",
    "   console.log(await retry(load));",
    "",
  ];
}
