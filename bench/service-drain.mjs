/**
 * Drain: how fast the service delivers due tasks, as a share of a bare undici pool that sends the
 * same bytes to the same sink. fsync on, all guards on. Bar: 0.30.
 */
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { drain, fill } from "./service-load.mjs";
import { inFolder, median, raw, setting, startSink } from "./service-parts.mjs";

const TASKS = setting("BENCH_TASKS", 60_000);
const ROUNDS = setting("BENCH_ROUNDS", 3);

const sink = await startSink();
await inFolder(async (folder) => {
  const redrive = await createRedrive({ store: `sqlite:${join(folder, "drain.db")}` });
  await raw(sink.origin, TASKS);
  await fill(redrive, sink.origin, TASKS);
  await drain(redrive, sink.origin, TASKS);
  const shares = [];
  for (let round = 0; round < ROUNDS; round++) {
    const bare = await raw(sink.origin, TASKS);
    await fill(redrive, sink.origin, TASKS);
    const ours = await drain(redrive, sink.origin, TASKS);
    shares.push(ours / bare);
    console.log(
      `raw ${bare.toFixed(0)}/s, drain ${ours.toFixed(0)}/s, share ${(ours / bare).toFixed(3)}`,
    );
  }
  console.log(JSON.stringify({ bench: "drain", share: median(shares), bar: 0.3 }));
  await redrive.stop();
});
sink.stop();
