/**
 * Run row: gives a service a task for a hostile server, waits for its end, and then gives it a task for the
 * same host that must succeed.
 */
import {
  type HostileServer,
  hostileServer,
} from "../../faces/service/src/deliver/hostile-server.testing.ts";
import { type HostileRow, POLICIES, summaryOf } from "./hostile-row.ts";
import type { HostileResult } from "./results.ts";
import type { Answer, ServiceProcess } from "./service-process.ts";

export async function addPolicies(service: ServiceProcess): Promise<void> {
  for (const [policyId, policy] of Object.entries(POLICIES)) {
    await service.call({ path: "/retry-policies", body: { policyId, ...policy } });
  }
}

/** The task and its attempts, once its attempts have ended. */
export async function settled(service: ServiceProcess, { json }: Answer, attempts = 1) {
  const { taskId } = json;
  await service.ended(taskId, attempts);
  const task = (await service.get(`/retry-tasks/${taskId}`)).json;
  const { json: page } = await service.get(`/retry-tasks/${taskId}/attempts?include=body`);
  if (page.attempts === undefined) throw new Error(JSON.stringify(page));
  return { task, log: page.attempts };
}

/** `address`: where the hostile server listens. `index`: for the names of destinations. */
export async function runHostile(
  service: ServiceProcess,
  row: HostileRow,
  address: string,
  index: number,
): Promise<HostileResult> {
  const { behavior, host = address, policy, task: { path = "/hostile", ...fields } = {} } = row;
  const server = await hostileServer(behavior, { ...row.server, address });
  const created = await service.call({
    path: "/retry-tasks",
    body: {
      targetUrl: server.url(String(path), host),
      policyId: policy,
      destination: `hostile-${index}`,
      body: "hello",
      ...fields,
    },
  });
  if (created.status !== 202) throw new Error(`${row.does}: ${JSON.stringify(created)}`);
  const { task, log } = await settled(service, created);
  const [attempt] = log;
  const requests = [...server.requests];
  const { end, request } = await honestTask(service, row, server, index);
  const seen = { task, attempt, requests, honest: request };
  const result = {
    summary: summaryOf(task, attempt),
    attempts: log.length,
    requests: requests.length,
    durationMs: attempt?.durationMs ?? 0,
    honest: end,
    facts: row.facts?.(seen),
  };
  await server.close();
  return result;
}

/** The next task for the same host is not affected. A host that never speaks HTTP is not asked. */
async function honestTask(
  service: ServiceProcess,
  row: HostileRow,
  server: HostileServer,
  index: number,
) {
  if (row.server?.greet !== undefined || row.server?.tls !== undefined) return { end: "not asked" };
  const before = server.requests.length;
  const targetUrl = server.url("/honest");
  const body = { targetUrl, policyId: "ample", destination: `honest-${index}`, method: "GET" };
  const created = await service.call({ path: "/retry-tasks", body });
  const { task, log } = await settled(service, created);
  const end = `${task.status} ${log.length} ${log[0]?.responseBody}`;
  return { end, request: server.requests[before] };
}
