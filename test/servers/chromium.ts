/**
 * Chromium: the system's own browser, headless, driven by playwright-core over a pipe. When the
 * test process dies the pipe closes and Chromium ends by itself; its fresh profile is in the run's
 * temporary folder, which goes with the run.
 */
import { type Browser, chromium } from "playwright-core";
import { programFor } from "../../tools/needs.mjs";

/** No sandbox, because tests run as root in containers; nothing that talks to the network unasked. */
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

/** Each call is a browser of its own with an empty profile. The caller closes it. */
export async function launchChromium(): Promise<Browser> {
  return await chromium.launch({
    executablePath: programFor("chromium"),
    args: FLAGS,
    chromiumSandbox: false,
  });
}
