/**
 * Few-files lookup: looks up a name without and with files left, through the system and through
 * c-ares, and prints as JSON which failures are a shortage of this process.
 */
import { lookup, Resolver } from "node:dns/promises";
import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import { failureOf } from "../../faces/service/dist/deliver/failure.js";

/** Nothing answers there. */
const resolver = new Resolver({ timeout: 50, tries: 1 });
resolver.setServers(["127.0.0.1:1"]);

/** @param {Promise<unknown>} looking */
const shortageOf = (looking) =>
  looking.then(
    () => "found",
    (error) => failureOf(error, false).shortage ?? null,
  );

const lookUp = async () => [
  await shortageOf(lookup("name.invalid")),
  await shortageOf(resolver.resolve4("name.invalid")),
];

const enough = await lookUp();
const files = [];
try {
  for (;;) files.push(openSync(devNull, "r"));
} catch {
  // No file is left.
}
const lacking = await lookUp();
for (const file of files) closeSync(file);
process.stdout.write(JSON.stringify({ enough, lacking }));
