/** The dashboard on a real PostgreSQL, with the flows that must work on every store. */
// needs: chromium, build, postgres
import { afterAll, test } from "vitest";
import { type PostgresServer, startPostgres } from "../servers/postgres.ts";
import {
  dashboardSetup,
  expectNoMessages,
  overviewFlow,
  pagesOf,
  wizardFlow,
} from "./dashboard-flows.ts";
import { startDashboardService } from "./dashboard-service.ts";

let postgres: PostgresServer | undefined;

const setup = dashboardSetup(async () => {
  postgres = await startPostgres();
  return startDashboardService({ store: postgres.url });
});
afterAll(() => postgres?.stop());

test("every page has its data", async () => {
  const opened = await setup.open("/ui/overview");
  for (const [path, text] of pagesOf(setup)) {
    await opened.page.goto(`${setup.service.url}/ui/${path}`);
    await opened.page.getByText(text).first().waitFor();
  }
  expectNoMessages(opened);
});

overviewFlow(setup);
wizardFlow(setup);
