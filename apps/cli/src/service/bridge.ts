/** `redrive bridge`: turns the messages of a queue of RabbitMQ or Redis into tasks of a running service. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { addExamples, integerFlag } from "../terminal/flags.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { headerFlag, labelFlag, pairsOption } from "./send.ts";
import {
  addConnectionFlags,
  type ClientFlags,
  createServiceClient,
  withErrorReport,
} from "./service-client.ts";

interface BridgeFlags extends ClientFlags {
  readonly from: string;
  readonly queue: string;
  readonly consumerGroup: string;
  readonly bodyField?: string;
  readonly idField?: string;
  readonly forwardHeader: readonly string[];
  readonly method?: string;
  readonly header: Readonly<Record<string, string>>;
  readonly label: Readonly<Record<string, string>>;
  readonly policy?: string;
  readonly concurrency: number;
}

export function addBridge(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("bridge <target>")
    .description("Turn each message of a queue into a task of a running service.");
  addSourceFlags(command);
  command
    .option("-X, --method <method>", "HTTP method (default: POST)")
    .addOption(
      pairsOption(
        "-H, --header <name=value>",
        'a request header, also as "name: value"; repeatable',
        headerFlag,
      ),
    )
    .option("--policy <id>", "a registered policy or a preset (default: background)")
    .addOption(
      pairsOption("--label <name=value>", "a label for finding the task; repeatable", labelFlag),
    )
    .option("--concurrency <number>", "messages at once", integerFlag(1, 1000), 20);
  addConnectionFlags(command);
  addExamples(
    command,
    "redrive bridge https://example.com/orders --from amqp://127.0.0.1 --queue orders",
    "redrive bridge https://example.com/orders --from redis://127.0.0.1 --queue orders --body-field order",
  );
  command.action((target: string, flags: BridgeFlags) => run(terminal, target, flags));
}

function addSourceFlags(command: Command): void {
  command
    .addOption(
      new Option(
        "--from <url>",
        "the broker: amqp://, amqps://, redis:// or rediss://, with user and password",
      )
        .env("REDRIVE_BROKER_URL")
        .argParser(brokerUrl)
        .makeOptionMandatory(),
    )
    .requiredOption("--queue <name>", "the queue of RabbitMQ, or the stream of Redis")
    .option("--consumer-group <name>", "Redis: the group of the stream", "redrive-bridge")
    .option("--body-field <name>", "Redis: the field to send (default: all fields, as JSON)")
    .option(
      "--id-field <name>",
      "Redis: the field with the id of a message (default: the id of its entry)",
    )
    .addOption(
      new Option(
        "--forward-header <name>",
        "RabbitMQ: a header of the message that the request gets; repeatable",
      )
        .argParser((name: string, before: readonly string[]) => [...before, name])
        .default([], "none"),
    );
}

async function run(terminal: Terminal, target: string, flags: BridgeFlags): Promise<void> {
  const stop = new AbortController();
  // Before the start there is nothing to wait for, so Ctrl-C ends the process at once.
  const stopOnSignals = () =>
    process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort());
  // Loads the clients of the brokers only for this command.
  const { runBridge } = await import("./run-bridge.ts");
  const { from, queue, consumerGroup, bodyField, idField, forwardHeader, policy } = flags;
  await withErrorReport(terminal, flags, () =>
    runBridge(
      terminal,
      createServiceClient(flags),
      {
        ...{ from, queue, group: consumerGroup, bodyField, idField, forwardHeader },
        targetUrl: target,
        method: flags.method,
        headers: flags.header,
        labels: flags.label,
        policyId: policy,
        concurrency: flags.concurrency,
      },
      stop.signal,
      stopOnSignals,
    ),
  );
}

function brokerUrl(text: string): string {
  const url = text.replace(/^[a-z]+(?=:)/iu, (scheme) => scheme.toLowerCase());
  if (URL.canParse(url) && /^(amqps?|rediss?):\/\/[^/]/u.test(url)) return url;
  throw new InvalidArgumentError("Must be a URL such as amqp://127.0.0.1 or redis://127.0.0.1.");
}
