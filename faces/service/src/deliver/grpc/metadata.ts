/**
 * Metadata: the headers of a gRPC call over HTTP/2, made of the headers that any attempt sends. The
 * metadata of a task was checked when the task was created.
 */
import { type OutgoingHttpHeaders, sensitiveHeaders } from "node:http2";
import { isHarmlessHeader } from "../../model/task-headers.ts";
import type { Target } from "../address-guard/target.ts";

const CONTENT_TYPE = "application/grpc+proto";

/** `flat`: alternating names and values. `timeoutMs`: the time that the attempt has left. */
export function callHeaders(
  { origin, path, grpc }: Target,
  flat: readonly string[],
  attemptNumber: number,
  timeoutMs: number,
): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {
    ":method": "POST",
    ":scheme": grpc?.isTls ? "https" : "http",
    ":authority": origin.slice(origin.indexOf("//") + 2),
    ":path": path,
    te: "trailers",
    "content-type": CONTENT_TYPE,
    // Rounded up, so that the target does not end the call before this side does.
    "grpc-timeout": `${Math.max(1, Math.ceil(timeoutMs))}m`,
  };
  if (attemptNumber > 1) headers["grpc-previous-rpc-attempts"] = String(attemptNumber - 1);
  const secret: string[] = [];
  for (let index = 0; index + 1 < flat.length; index += 2) {
    const name = (flat[index] ?? "").toLowerCase();
    if (name === "accept-encoding") continue;
    headers[name] = flat[index + 1];
    if (!isHarmlessHeader(name)) secret.push(name);
  }
  // HPACK does not put these values into its tables.
  return Object.assign(headers, { [sensitiveHeaders]: secret });
}
