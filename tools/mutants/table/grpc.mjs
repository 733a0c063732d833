/** gRPC: mutants of calls to gRPC targets: their connections, responses and input. */
import { inService } from "../mutant.mjs";

export const grpc = [
  inService("deliver/session-pool.ts", [
    {
      name: "an open connection is used although its address is no longer allowed",
      search:
        "if (!this.#connector.mayReuse(place.endpoint, address)) session.retire();\n      else if",
      replace: "if",
    },
    {
      name: "an idle connection stays open",
      search: "nowMs - idleSinceMs >= MAX_IDLE_MS || ",
      replace: "",
    },
    {
      name: "an old connection gets calls",
      search: " || nowMs - session.openedMs >= MAX_AGE_MS",
      replace: "",
    },
  ]),
  inService("deliver/grpc.ts", [
    {
      name: "a flood on an idle connection goes on",
      search: "if (this.#socket.bytesRead > this.#maxReceived) this.destroy();",
      replace: "",
    },
    {
      name: "the target's limit of calls is ignored",
      search: "Math.max(1, Math.min(allowed, MAX_CALLS))",
      replace: "MAX_CALLS",
    },
    {
      name: "a call that a GOAWAY excludes counts as processed",
      search: "return streamId > this.#lastStreamId;",
      replace: "return false;",
    },
  ]),
  inService("deliver/grpc.ts", [
    {
      name: "a call is sent although it may not start",
      search: "if (this.call.options.mayStart?.() === false) this.endEarly(undefined);\n    else ",
      replace: "",
    },
    {
      name: "the connection of a call that timed out is used again",
      search: "this.#session?.retire();",
      replace: "",
    },
    {
      name: "a refused call counts as sent",
      search: "this.endFailed(failure, !isUnprocessed);",
      replace: "this.endFailed(failure, true);",
    },
  ]),
  inService("deliver/grpc.ts", [
    {
      name: "trailers of any length are accepted",
      search: "return bytes <= MAX_HEADER_BYTES;",
      replace: "return true;",
    },
    {
      name: "the first of two codes counts",
      search: 'const code = isOne ? readGrpcStatus(given) : "UNKNOWN";',
      replace: "const code = readGrpcStatus(given);",
    },
    {
      name: "a secret in a message of gRPC is not found",
      search: 'name === "grpc-message" ? decoded(value) : value',
      replace: "value",
    },
  ]),
  inService("deliver/grpc.ts", [
    {
      name: "a message of any length is read",
      search: "<= MAX_RESPONSE_BYTES;",
      replace: "<= Number.POSITIVE_INFINITY;",
    },
  ]),
  inService("deliver/target.ts", [
    {
      name: "the host of a target that is not HTTP is not normalized",
      search: "const url = new URL(known);",
      replace: "const url = new URL(text);",
    },
  ]),
  inService("intake/task-input.ts", [
    {
      name: "a task sets the metadata of gRPC itself",
      search: 'if (name.startsWith("grpc-")) return "is set by the service, not by a task";',
      replace: "",
    },
  ]),
].flat();
