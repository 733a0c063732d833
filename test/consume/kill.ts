/**
 * Kill: kills a consumer again and again while it works, then lets one finish. Every message must be
 * handled at least once.
 */
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { PrintingProcess } from "../faults/printing-process.ts";
import { until } from "./received.ts";

const CHILD = fileURLToPath(new URL("./consumer-child.mjs", import.meta.url));
const KILLS = 2;

/** `publish` adds messages with these ids. `isEmpty` is true when the broker has none left. */
export async function killConsumers(
  args: readonly [broker: string, url: string, queue: string],
  publish: (ids: readonly string[]) => Promise<void>,
  isEmpty: () => Promise<boolean>,
): Promise<void> {
  const ids = Array.from({ length: 200 }, (_, index) => `m${index}`);
  await publish(ids);
  const handled: string[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const child = new PrintingProcess(process.execPath, [CHILD, ...args]);
    await child.said("handled");
    await child.kill();
    handled.push(...handledBy(child));
  }
  expect(new Set(handled).size).toBeLessThan(ids.length);
  const last = new PrintingProcess(process.execPath, [CHILD, ...args]);
  await last.said("ready");
  await until(async () => {
    if (last.process.exitCode !== null) throw new Error(`the consumer ended: ${last.stderr}`);
    return await isEmpty();
  });
  await last.kill();
  expect([...new Set([...handled, ...handledBy(last)])].toSorted()).toEqual(ids.toSorted());
}

function handledBy({ lines }: PrintingProcess): string[] {
  return lines.flatMap((line) => /^handled (.+)$/.exec(line)?.[1] ?? []);
}
