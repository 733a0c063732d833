/** Setting calls: the part of the client for keys, alerts, and what happened in the last hour. */
import type { ActivityView, DestinationHistory } from "../schemas/activity-schemas.ts";
import type {
  AlertsView,
  CreatedKey,
  KeyList,
  KeyToCreate,
  TestAlert,
} from "../schemas/setting-schemas.ts";
import type { Transport } from "./transport.ts";

export interface SettingCalls {
  listKeys(): Promise<KeyList>;
  /** The response contains the key itself, which is shown only once. */
  createKey(key: KeyToCreate): Promise<CreatedKey>;
  revokeKey(keyId: string): Promise<void>;
  alerts(): Promise<AlertsView>;
  /** Posts a test alert, by a task. */
  testAlert(): Promise<TestAlert>;
  /** The last hour per minute. */
  activity(): Promise<ActivityView>;
  /** The last hour of one destination on the node that answers, and the changes of its limit. */
  destinationHistory(name: string): Promise<DestinationHistory>;
}

export function settingCalls({ request, send }: Transport): SettingCalls {
  const read = <T>(path: readonly string[], field: keyof T & string) =>
    request<T>({ method: "GET", path }, field);
  return {
    listKeys: () => read(["keys"], "isRequired"),
    createKey: (key) => request({ method: "POST", path: ["keys"], body: key }, "key"),
    async revokeKey(keyId) {
      await send({ method: "DELETE", path: ["keys", keyId] });
    },
    alerts: () => read(["alerts"], "destination"),
    testAlert: () => request({ method: "POST", path: ["alerts", "test"] }, "taskId"),
    activity: () => read(["activity"], "counts"),
    destinationHistory: (name) => read(["destinations", name, "history"], "counts"),
  };
}
