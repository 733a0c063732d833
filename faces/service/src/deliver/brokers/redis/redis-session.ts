/**
 * Redis session: a connection to a Redis server. Messages are added to streams with XADD, and the replies
 * arrive in the order of the commands.
 */
import type { GrpcCode } from "@redrive/core";
import type { RedisPlace } from "../../address-guard/broker-target.ts";
import { type BrokerAnswer, BrokerRefusal, violation } from "../session/broker-answer.ts";
import { BrokerSession, type Publication } from "../session/broker-session.ts";
import { addCommand } from "./add-command.ts";
import { addedAnswer, errorAnswer, NO_STREAM } from "./redis-answers.ts";
import { RespReader, type RespReply, respCommand } from "./resp-reader.ts";

type OnReply = (reply: RespReply) => void;

export class RedisSession extends BrokerSession {
  readonly #reader = new RespReader((reply) => this.#onReply(reply));

  // Mutable state.
  /** Commands without a reply, in their order. */
  readonly #sent: OnReply[] = [];
  #failLogin: ((error: Error) => void) | undefined;

  /**
   * The last command proves that the target is a Redis server: nothing of a task is sent to anything
   * else.
   */
  login(): Promise<void> {
    const { login } = this.place;
    const { database } = this.place.place as RedisPlace;
    return new Promise((resolve, reject) => {
      this.#failLogin = reject;
      if (login !== undefined) {
        const { user, password } = login;
        this.#ask(["AUTH", ...(user === "" ? [] : [user]), password], "UNAUTHENTICATED");
      }
      if (database !== 0) this.#ask(["SELECT", String(database)], "NOT_FOUND");
      this.#ask(["PING"], "UNKNOWN", resolve);
    });
  }

  /** `otherwise`: the code of an error that is not known. */
  #ask(args: readonly string[], otherwise: GrpcCode, then?: () => void): void {
    this.#send(respCommand(args), (reply) => {
      // A user who may only add to a stream may not send PING, but only Redis says so.
      const isRefused = reply.kind === "error" && !(then && reply.text.startsWith("NOPERM"));
      if (isRefused) this.fail(new BrokerRefusal(errorAnswer(reply.text, otherwise)));
      else if (reply.kind !== "error" && !isReplyTo(args, reply)) throw violation(OTHER_SERVER);
      else then?.();
    });
  }

  #send(command: Buffer, onReply: OnReply): void {
    this.#sent.push(onReply);
    this.socket.write(command);
  }

  protected start(publication: Publication): void {
    const { place, message } = publication;
    const command = respCommand(addCommand(place as RedisPlace, message));
    if (!publication.mayStart()) return;
    this.#send(command, (reply) => publication.onAnswer(answerOf(reply)));
  }

  /** A reply that still arrives is ignored by the publication itself. */
  protected forget(): void {}

  unanswered(): undefined {
    return undefined;
  }

  protected receive(chunk: Buffer): void {
    this.#reader.push(chunk);
  }

  #onReply(reply: RespReply): void {
    const onReply = this.#sent.shift();
    if (onReply === undefined) throw violation("it sends a reply without a command");
    onReply(reply);
  }

  /** Redis has no heartbeat. */
  check(): void {}

  protected onFailed(error: Error): void {
    this.#failLogin?.(error);
  }

  protected close(): void {
    this.socket.destroy();
  }
}

const OTHER_SERVER = "it does not reply as Redis does";

/** The greeting of another server must not count. */
function isReplyTo([name]: readonly string[], reply: RespReply): boolean {
  return reply.kind === "value" && reply.text === (name === "PING" ? "PONG" : "OK");
}

/** Only a reply with an id says that the stream has the message. */
const ENTRY_ID = /^\d+-\d+$/;

function answerOf(reply: RespReply): BrokerAnswer {
  switch (reply.kind) {
    case "error":
      return errorAnswer(reply.text);
    case "nil":
      return NO_STREAM;
    default:
      if (!ENTRY_ID.test(reply.text)) throw violation("it replies without the id of an entry");
      return addedAnswer(reply.text);
  }
}
