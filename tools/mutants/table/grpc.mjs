/** gRPC: mutants of calls to gRPC targets: their connections, responses and input. */

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const grpc = [
  {
    name: "an open connection is used although its address is no longer allowed",
    in: "SessionPool.#usable",
    search:
      "if (!this.#connector.mayReuse(place.endpoint, address)) session.retire();\n      else if",
    replace: "if",
  },
  {
    name: "an idle connection stays open",
    in: "SessionPool.#check",
    search: "nowMs - idleSinceMs >= MAX_IDLE_MS || ",
    replace: "",
  },
  {
    name: "an old connection gets calls",
    in: "SessionPool.#check",
    search: " || nowMs - session.openedMs >= MAX_AGE_MS",
    replace: "",
  },
  {
    name: "a flood on an idle connection goes on",
    in: "GrpcSession.check",
    search: "if (this.#socket.bytesRead > this.#maxReceived) this.destroy();",
    replace: "",
  },
  {
    name: "the target's limit of calls is ignored",
    in: "GrpcSession.hasRoom",
    search: "Math.max(1, Math.min(allowed, MAX_CALLS))",
    replace: "MAX_CALLS",
  },
  {
    name: "a call that a GOAWAY excludes counts as processed",
    in: "GrpcSession.isUnprocessed",
    search: "return streamId > this.#lastStreamId;",
    replace: "return false;",
  },
  {
    name: "a call is sent although it may not start",
    in: "GrpcCall.onSession",
    search: "if (this.call.options.mayStart?.() === false) this.endEarly(undefined);\n    else ",
    replace: "",
  },
  {
    name: "the connection of a call that timed out is used again",
    in: "GrpcCall.#reset",
    search: "this.#session?.retire();",
    replace: "",
  },
  {
    name: "a refused call counts as sent",
    in: "GrpcCall.#onClose",
    search: "this.endFailed(failure, !isUnprocessed);",
    replace: "this.endFailed(failure, true);",
  },
  {
    name: "trailers of any length are accepted",
    in: "GrpcResponse.#add",
    search: "return bytes <= MAX_HEADER_BYTES;",
    replace: "return true;",
  },
  {
    name: "the first of two codes counts",
    in: "GrpcResponse.#answerOf",
    search: 'const code = isOne ? readGrpcStatus(given) : "UNKNOWN";',
    replace: "const code = readGrpcStatus(given);",
  },
  {
    name: "a secret in a message of gRPC is not found",
    in: "GrpcResponse.#add",
    search: 'name === "grpc-message" ? decoded(value) : value',
    replace: "value",
  },
  {
    name: "a message of any length is read",
    in: "MessageReader.add",
    search: "<= MAX_RESPONSE_BYTES;",
    replace: "<= Number.POSITIVE_INFINITY;",
  },
  {
    name: "the host of a target that is not HTTP is not normalized",
    in: "parseTargetUrl",
    search: "const url = new URL(known);",
    replace: "const url = new URL(text);",
  },
  {
    name: "a task sets the metadata of gRPC itself",
    in: "metadataText",
    search: 'if (name.startsWith("grpc-")) return "is set by the service, not by a task";',
    replace: "",
  },
];
