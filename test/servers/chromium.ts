/**
 * Chromium: starts the system's browser, headless, with playwright-core over a pipe. If the test
 * process dies, the pipe closes and Chromium ends. Its fresh profile is in the temporary folder of
 * the test run, which is removed with the run.
 */
import { type Browser, chromium } from "playwright-core";
import { programFor } from "../../tools/needs.mjs";

/** No sandbox, because tests run as root in containers. No background network traffic. */
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Each call starts a new browser with an empty profile. The caller closes it. */
export async function launchChromium(): Promise<Browser> {
  return await chromium.launch({
    executablePath: programFor("chromium"),
    args: FLAGS,
    chromiumSandbox: false,
  });
}
