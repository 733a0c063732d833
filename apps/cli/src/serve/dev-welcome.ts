/** Dev welcome: the first output of `redrive dev`: three things to try, ready to paste. */

export interface DevWelcomeOptions {
  /** URL of the service, without a trailing slash. */
  readonly url: string;
  readonly flakyUrl: string;
  readonly dataFile: string;
  /** The command to run the CLI: `npx redrive`. */
  readonly command: string;
}

/** Retries for about ten seconds, so that a user can watch a task become a dead letter. */
export const DEMO_POLICY = {
  policyId: "demo",
  description: "For demos: five attempts within about ten seconds.",
  maxAttempts: 5,
  initialDelayMs: 500,
  maxDelayMs: 4000,
  jitterType: "EQUAL",
  totalBudgetMs: 60_000,
  attemptTimeoutMs: 5000,
} as const;

/** The CLI's default address, which needs no --url. */
const DEFAULT_URL = "http://127.0.0.1:7337";

/** Returns the lines. Commands have no trailing comments, because zsh treats those as arguments. */
export function devWelcome({
  url,
  flakyUrl,
  dataFile,
  command,
}: DevWelcomeOptions): readonly string[] {
  const task = { targetUrl: `${flakyUrl}/orders`, policyId: "demo", json: { order: 42 } };
  const flag = url === DEFAULT_URL ? "" : ` --url ${url}`;
  return [
    `Redrive stores its data in ${dataFile}. Try this in a second terminal, in this folder:`,
    "",
    "1. Create a task for a destination that fails one time in five:",
    "",
    `   curl --json '${JSON.stringify(task)}' ${url}/retry-tasks`,
    "",
    "   Break the destination, create another task, and watch it become a dead letter:",
    "",
    `   curl '${flakyUrl}/break?for=10m'`,
    `   ${command} send ${flakyUrl}/orders --policy demo --body-json '{"order":43}' --wait 25s${flag}`,
    `   ${command} explain${flag}`,
    "",
    "   Repair the destination and redrive the dead letter:",
    "",
    `   curl ${flakyUrl}/repair`,
    `   ${command} dlq redrive${flag}`,
    "",
    `2. Open the web pages: ${url}/ui/ shows the tasks, ${url}/ui/simulator simulates policies, ${url}/docs describes the API.`,
    "",
    "3. Retry in your own process: write this to a file in this folder, such as try.mjs, and run it:",
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
