/** Brokers: mutants of messages to RabbitMQ and Redis: their URLs, connections, answers and input. */
import { inService } from "../mutant.mjs";

export const brokers = [
  inService("deliver/target.ts", [
    {
      name: "a port that HTTP implies is replaced by the port of the broker",
      search: "url.port || writtenPort(text) || impliedPort",
      replace: "url.port || impliedPort",
    },
  ]),
  inService("deliver/target.ts", [
    {
      name: "an unknown parameter is ignored",
      search: "if (!known.includes(name as Name)) return unknownParameter(name, known);",
      replace: "if (!known.includes(name as Name)) continue;",
    },
    {
      name: "a fragment is dropped",
      search: 'if (url.hash !== "") return "targetUrl must have no fragment: write # as %23";',
      replace: "",
    },
    {
      name: "bytes that are not UTF-8 name something else",
      search: "\\uFFFD]/u",
      replace: "]/u",
    },
  ]),
  inService("deliver/session-pool.ts", [
    {
      name: "a connection that was closed at once is kept",
      search: "if (session.isRetired) {",
      replace: "if (session.isRetired && false) {",
    },
  ]),
  inService("deliver/broker-sender.ts", [
    {
      name: "users share connections",
      search: "login?.user, login?.password]);",
      replace: "]);",
    },
    {
      name: "the password is stored if the broker sends it back",
      search: "[...(call.request.secrets ?? []), login.password]",
      replace: "[...(call.request.secrets ?? [])]",
    },
  ]),
  inService("deliver/broker-sender.ts", [
    {
      name: "a login may last for ever",
      search: "const cancelAlarm = clock.alarm(Math.max(0, leftMs), end, true);",
      replace: "const cancelAlarm = () => {};",
    },
  ]),
  inService("deliver/broker-sender.ts", [
    {
      name: "a message is sent although it may not start",
      search: "if (this.call.options.mayStart?.() === false) {",
      replace: "if (this.call.options.mayStart?.() === false && false) {",
    },
    {
      name: "the connection of a message that timed out is used again",
      search: "if (known === undefined) session?.retire();",
      replace: "",
    },
    {
      name: "a message that was sent counts as not sent",
      search: "this.#sentMs = this.clock.monotonicMs();\n    return true;",
      replace: "return true;",
    },
    {
      name: "the connection to a replica is used again",
      search: "if (answer.isElsewhere) this.#session?.retire();",
      replace: "",
    },
  ]),
  inService("deliver/broker-session.ts", [
    {
      name: "a flood goes on",
      search: "if (this.#received > this.#maxReceived) throw tooMuch();",
      replace: "",
    },
    {
      name: "messages without an answer wait although the connection is lost",
      search: "for (const publication of [...this.#running]) publication.onFailure(error);",
      replace: "",
    },
  ]),
  inService("deliver/amqp.ts", [
    {
      name: "a frame of any length is read",
      search: 'if (length > MAX_FRAME) throw violation("a frame is too long");',
      replace: "",
    },
  ]),
  inService("deliver/amqp.ts", [
    {
      name: "a message that no queue takes is dropped",
      search: "const MANDATORY = 1;",
      replace: "const MANDATORY = 0;",
    },
  ]),
  inService("deliver/amqp.ts", [
    {
      name: "a returned message is a success",
      search: "this.#returned === undefined ? OK : replyAnswer(this.#returned)",
      replace: "OK",
    },
    {
      name: "any confirmation counts",
      search: "if (publication === undefined || !isLast)",
      replace: "if (publication === undefined)",
    },
  ]),
  inService("deliver/amqp.ts", [
    {
      name: "a broker that blocks publishers gets messages",
      search: "if (this.#blocked !== undefined) {",
      replace: "if (this.#blocked !== undefined && false) {",
    },
    {
      name: "a silent connection is not kept alive",
      search: "if (heartbeat > 0 && isDue && !this.#isClosing) this.write(HEARTBEAT_FRAME);",
      replace: "",
    },
    {
      name: "a broker that does not say goodbye keeps the connection",
      search: "() => this.socket.destroy(), true);",
      replace: "() => {}, true);",
    },
  ]),
  inService("deliver/redis-stream.ts", [
    {
      name: "a message is sent to what is not Redis",
      search: 'this.#ask(["PING"], "UNKNOWN", resolve);',
      replace: "resolve();",
    },
    {
      name: "a reply without a command is ignored",
      search: 'if (onReply === undefined) throw violation("it sends a reply without a command");',
      replace: "if (onReply === undefined) return;",
    },
    {
      name: "any reply says that the stream has the message",
      search:
        'if (!ENTRY_ID.test(reply.text)) throw violation("it replies without the id of an entry");',
      replace: "",
    },
  ]),
  inService("deliver/redis-stream.ts", [
    {
      name: "the start of a password is stored if Redis quotes it",
      search: "text: quotesArguments(text) ? undefined : text",
      replace: "text",
    },
  ]),
  inService("deliver/broker-message.ts", [
    {
      name: "a password has lines of another protocol",
      search: " || CONTROL.test(text)",
      replace: ' || text.includes("\\0")',
    },
  ]),
  inService("deliver/redis-stream.ts", [
    {
      name: "a line of any length is kept",
      search: 'if (this.#rest.length > MAX_REPLY) throw violation("a reply is too long");',
      replace: "",
    },
  ]),
  inService("intake/task-input.ts", [
    {
      name: "a login that is not Basic is accepted",
      search: "return parseBasic(value) === null ? NO_LOGIN : undefined;",
      replace: "return undefined;",
    },
    {
      name: "a message of any length is accepted",
      search: "if (length <= MAX_BROKER_MESSAGE) return [];",
      replace: "return [];",
    },
  ]),
].flat();
