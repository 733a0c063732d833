/**
 * Dashboard service: a real service with a real target, for tests of the dashboard. The path of a
 * request to the target is the status that it responds with. The caller closes it.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive, type RedriveOptions } from "@redrive/service";
import { type Client, createClient } from "@redrive/service/client";
import { type AppOptions, createApp, listenApp } from "@redrive/service/http";
import { PAGES_FOLDER } from "./web-pages.ts";

/** Markup that would run if a page inserted it as HTML, and a mark that reverses text. */
export const HOSTILE =
  "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\u202egnp";

export interface DashboardService {
  readonly url: string;
  readonly targetUrl: string;
  readonly client: Client;
  /** Later responses of the target, instead of the status in the path. */
  repair(): void;
  /** Closes the HTTP server and opens it again on the same port. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export interface DashboardOptions extends AppOptions {
  /** Default: SQLite, in a folder that is removed at the end. */
  readonly store?: RedriveOptions["store"];
  readonly alerts?: (targetUrl: string) => NonNullable<RedriveOptions["alerts"]>;
}

export async function startDashboardService(
  options: DashboardOptions = {},
): Promise<DashboardService> {
  const { store, alerts, ...appOptions } = options;
  const folder = mkdtempSync(join(tmpdir(), "redrive-dashboard-"));
  const target = await startTarget();
  const redrive = await createRedrive({
    store: store ?? `sqlite:${join(folder, "tasks.db")}`,
    ...(alerts && { alerts: alerts(target.url) }),
  });
  const open = async (port: number) => {
    const app = createApp(redrive, { pagesFolder: PAGES_FOLDER, ...appOptions });
    return { app, url: await listenApp(app, { host: "127.0.0.1", port }) };
  };
  let { app, url } = await open(0);
  return {
    url,
    targetUrl: target.url,
    client: createClient({ url }),
    repair: () => target.repair(),
    async restart() {
      await app.close();
      ({ app, url } = await open(Number(new URL(url).port)));
    },
    async close() {
      await app.close();
      await redrive.stop(0);
      target.close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function startTarget() {
  let isRepaired = false;
  const server = createServer((request, response) => {
    request.resume();
    response.statusCode = isRepaired ? 200 : Number(request.url?.slice(1, 4));
    response.setHeader("set-cookie", "session=secret");
    if (response.statusCode === 429) response.setHeader("retry-after", "120");
    response.end(HOSTILE);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    repair: () => {
      isRepaired = true;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
