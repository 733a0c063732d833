/**
 * Dashboard service: a real service with a real target, for tests of the dashboard. The path of a
 * request to the target is the status that it responds with. The caller closes it.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRedrive } from "@redrive/service";
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

export async function startDashboardService(options: AppOptions = {}): Promise<DashboardService> {
  let isRepaired = false;
  const target = createServer((request, response) => {
    request.resume();
    response.statusCode = isRepaired ? 200 : Number(request.url?.slice(1, 4));
    response.setHeader("set-cookie", "session=secret");
    if (response.statusCode === 429) response.setHeader("retry-after", "120");
    response.end(HOSTILE);
  });
  target.listen(0, "127.0.0.1");
  await once(target, "listening");
  const redrive = await createRedrive({ store: "memory:" });
  const open = async (port: number) => {
    const app = createApp(redrive, { pagesFolder: PAGES_FOLDER, ...options });
    return { app, url: await listenApp(app, { host: "127.0.0.1", port }) };
  };
  let { app, url } = await open(0);
  return {
    url,
    targetUrl: `http://127.0.0.1:${(target.address() as AddressInfo).port}`,
    client: createClient({ url }),
    repair: () => {
      isRepaired = true;
    },
    async restart() {
      await app.close();
      ({ app, url } = await open(Number(new URL(url).port)));
    },
    async close() {
      await app.close();
      await redrive.stop(0);
      target.closeAllConnections();
      target.close();
    },
  };
}
