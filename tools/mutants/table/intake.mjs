/** Intake: mutants of the checks of a new task, its fingerprint and its secrets. */

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const intake = [
  {
    name: "a caller may set the labels of the service",
    in: "labelsRule",
    search: "if (entries.some(([name]) => OWN_LABEL.test(name))) return NO_OWN_LABELS;",
    replace: "",
  },
  {
    name: "a task may be scheduled in any year",
    in: "checkInput",
    search: "scheduledAt > now + MAX_SCHEDULE_MS",
    replace: "false",
  },
  {
    name: "a deadline before the first attempt is accepted",
    in: "checkInput",
    search: "deadlineAt <= Math.max(now, scheduledAt)",
    replace: "deadlineAt <= now",
  },
  {
    name: "a task in the past is due in the past",
    in: "createTask",
    search: "Math.max(now, input.scheduledAt ?? now)",
    replace: "input.scheduledAt ?? now",
  },
  {
    name: "a callback may go anywhere",
    in: "callbackOf",
    search: 'if (!callback.ok) throw refusal(callback, "callbackUrl");',
    replace: "if (!callback.ok) return callbackUrl;",
  },
  {
    name: "a later change of the caller's bytes reaches an attempt",
    in: "bodyOf",
    search: "Uint8Array.prototype.slice.call(body)",
    replace: "body",
  },
  {
    name: "a GET with a body is accepted",
    in: "bodyProblems",
    search: 'method === "GET" || method === "HEAD"',
    replace: 'method === "HEAD"',
  },
  {
    name: "a body of any size is stored in the row",
    in: "TaskIntake.#fitsInline",
    search: "body === null || body.length <= this.#parts.bodies.inlineBytes",
    replace: "true",
  },
  {
    name: "a ref to any body is accepted",
    in: "TaskIntake.enqueue",
    search: "      await bodies.assertExists(tenantId, input.bodyRef);\n",
    replace: "",
  },
  {
    name: "the second upload of a replayed request stays",
    in: "TaskIntake.#enqueueOwn",
    search:
      "if (accepted.replayed && bodyRef !== null) await bodies.discard(entry.tenantId, bodyRef);",
    replace: "",
  },
  {
    name: "a body in the blob store does not count for the fingerprint",
    in: "fingerprintParts",
    search: "return [text, ...blobParts(task.bodyRef)];",
    replace: "return [text];",
  },
  {
    name: "the order of headers changes the fingerprint",
    in: "fingerprintParts",
    search: "    .sort();",
    replace: ";",
  },
  {
    name: "a new trace changes the fingerprint",
    in: "fingerprintParts",
    search: "    .filter(([name]) => !VOLATILE_HEADERS.test(name))\n",
    replace: "",
  },
  {
    name: "the body does not count for the fingerprint",
    in: "fingerprintParts",
    search: "task.body === null ? [text] : [text, task.body]",
    replace: "[text]",
  },
  {
    name: "a sealed header can be moved to another task",
    in: "contextOf",
    search: 'return `${tenantId}\\n${taskId}\\n${names.join("\\n").toLowerCase()}`;',
    replace: 'return `${tenantId}\\n${names.join("\\n").toLowerCase()}`;',
  },
  {
    name: "a header that cannot be decrypted is sent empty",
    in: "openedHeaders",
    search: 'if (value === null) return null;\n    headers[name] = value.toString("utf8");',
    replace: 'headers[name] = value?.toString("utf8") ?? "";',
  },
  {
    name: "a header that was sealed alone is read as several",
    in: "togetherContext",
    search: "return `${contextOf(task, names)}\\n+`;",
    replace: "return contextOf(task, names);",
  },
  {
    name: "a header that is added to a sealed task breaks the others",
    in: "sealedHeaders",
    search: "names.length === 1 || hasSealed(task.headers)",
    replace: "names.length === 1",
  },
  {
    name: "a nonce is used again",
    in: "randomNonces",
    search: "used += NONCE_BYTES;\n    return",
    replace: "return",
  },
  {
    name: "a store with encrypted headers opens without its key",
    in: "openSecrets",
    search: "    throw noKey((JSON.parse(stored.text) as KeyDocument).keyId);\n",
    replace: "    return { ...ciphers([], fill), fingerprint: sha256 };\n",
  },
  {
    name: "a key may send to every port of its targets",
    in: "isListed",
    search: "rule.port !== undefined && rule.port !== port",
    replace: "false",
  },
  {
    name: "a policy that was read before a change is kept after it",
    in: "DestinationPolicies.#read",
    search: "if (changes === this.#changes) {",
    replace: "if (changes >= 0) {",
  },
  {
    name: "a shared store has a cache that other nodes do not change",
    in: "isFresh",
    search: "exclusive || Math.abs(now() - readAt) < KNOWN_MS",
    replace: "exclusive || now > 0",
  },
];
