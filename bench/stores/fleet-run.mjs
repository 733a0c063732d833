/** Fleet run: the measurements of `npm run bench -- fleet`, one store after the other, as tables. */
import { otherCheckout } from "../against.mjs";
import { measureBacklog } from "./backlog.mjs";
import { measureBefore } from "./before.mjs";
import { measureExchanges } from "./exchanges.mjs";
import { measureRate } from "./rate.mjs";
import { measureRetention } from "./retention.mjs";
import { Servers } from "./servers.mjs";

const KINDS = (process.env["BENCH_KINDS"] ?? "postgres,redis").split(",");
const PARTS = (process.env["BENCH_PARTS"] ?? "exchanges,rate,retention,backlog").split(",");

const servers = new Servers();
const other = otherCheckout();
try {
  if (other !== undefined) {
    console.table(await measureBefore(servers, other, KINDS));
    process.exit(0);
  }
  for (const kind of /** @type {("postgres" | "redis")[]} */ (KINDS)) {
    if (PARTS.includes("exchanges")) {
      console.log(`${kind}: exchanges`);
      console.table((await measureExchanges(servers, kind)).map(rounded));
    }
    if (PARTS.includes("rate")) {
      console.log(`${kind}: a backlog under a rate limit`);
      console.table([rounded(await measureRate(servers, kind))]);
    }
    if (PARTS.includes("retention")) {
      console.log(`${kind}: old tasks that are removed per second`);
      console.log(await measureRetention(servers, kind));
    }
    if (PARTS.includes("backlog")) {
      console.log(`${kind}: a backlog that is due tomorrow`);
      console.table([rounded(await measureBacklog(servers, kind))]);
    }
  }
} finally {
  await servers.stop();
}

/** @param {Readonly<Record<string, number>>} row */
function rounded(row) {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, Math.round(value * 1000) / 1000]),
  );
}
