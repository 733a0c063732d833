/** The examples in docs/cli.md match the output of the commands on a terminal of 80 columns. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { redrive } from "./program.testing.ts";

const page = readFileSync(new URL("../../../docs/cli.md", import.meta.url), "utf8");
const shown = [...page.matchAll(/^```console\n\$ redrive (.*)\n([\s\S]*?)^```$/gmu)];

test("the page has examples", () => {
  expect(shown.length).toBeGreaterThan(1);
});

test.each(shown.map(([, line = "", output = ""]) => [line, output]))(
  "redrive %s",
  async (line, output) => {
    expect((await redrive(line)).out).toBe(output);
  },
);
