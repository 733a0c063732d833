/**
 * Questions of the advisor, as data, so that a terminal and a web page can ask the same ones. First
 * the five of the usual decision tree, in its order and with its thresholds, then ours.
 */

export type QuestionId =
  | "transient"
  | "idempotent"
  | "clients"
  | "minimumWait"
  | "background"
  | "waits"
  | "outageMs"
  | "tiers"
  | "shards";

export interface Choice {
  readonly value: string | number | boolean;
  readonly label: string;
}

export interface Question {
  readonly id: QuestionId;
  readonly text: string;
  readonly help: string;
  /** What can be chosen; for `number` these are suggestions. */
  readonly kind: "choice" | "number";
  readonly choices: readonly Choice[];
  /** For `number`. */
  readonly min?: number;
  readonly max?: number;
  /** Taken when there is no answer. */
  readonly fallback: string | number | boolean;
  /** Whose question it is. */
  readonly from: "usual" | "redrive";
  /** Left out once this is answered so: the tree has come to its end. */
  readonly skipIf?: { readonly id: QuestionId; readonly value: string | number | boolean };
}

/** How many clients may retry at once, in the classes of the tree. */
export type ClientClass = "few" | "many" | "very-many";

export interface Answers {
  readonly transient?: boolean;
  /** "key": not by itself, but an idempotency key can be sent. */
  readonly idempotent?: "yes" | "key" | "no";
  readonly clients?: ClientClass;
  readonly minimumWait?: boolean;
  readonly background?: boolean;
  readonly waits?: "person" | "service" | "job";
  /** The longest outage to survive. 0 to 86 400 000 ms (a day). */
  readonly outageMs?: number;
  /** Layers that call one another on the way, this one included. 1 to 8. */
  readonly tiers?: number;
  /** Parts of the dependency that fail by themselves. 1 to 1000. */
  readonly shards?: number;
}

const YES_NO: readonly Choice[] = [
  { value: true, label: "Yes" },
  { value: false, label: "No" },
];

type BaseQuestion = Omit<Question, "from" | "skipIf">;

/** The questions of the usual decision tree, in its order and with its thresholds. */
const USUAL_QUESTIONS: readonly BaseQuestion[] = [
  {
    id: "transient",
    text: "Is the error transient (429, 408, 500, 502, 503, 504, network timeout)?",
    help: "400, 401, 403, 404 and 422 stay what they are, however often one asks.",
    kind: "choice",
    choices: YES_NO,
    fallback: true,
  },
  {
    id: "idempotent",
    text: "Is the operation idempotent (safe to repeat)?",
    help: "A timeout does not say whether the work was done.",
    kind: "choice",
    choices: [
      { value: "yes", label: "Yes: reads, PUT, DELETE" },
      { value: "key", label: "With an idempotency key" },
      { value: "no", label: "No" },
    ],
    fallback: "yes",
  },
  {
    id: "clients",
    text: "How many concurrent clients may retry simultaneously?",
    help: "Count processes, not users: everything that fails at the same moment.",
    kind: "choice",
    choices: [
      { value: "few", label: "Few (below 10)" },
      { value: "many", label: "Many (10 to 1000)" },
      { value: "very-many", label: "Very many (above 1000)" },
    ],
    fallback: "many",
  },
  {
    id: "minimumWait",
    text: "Do you need a guaranteed minimum wait time?",
    help: "For example because the other side counts calls per second.",
    kind: "choice",
    choices: YES_NO,
    fallback: false,
  },
  {
    id: "background",
    text: "Is this a long-running background job?",
    help: "Work that may take minutes or hours to get done.",
    kind: "choice",
    choices: YES_NO,
    fallback: false,
  },
];

/** Ours, after them. */
const REDRIVE_QUESTIONS: readonly BaseQuestion[] = [
  {
    id: "waits",
    text: "Who waits for the answer?",
    help: "A person gives up after seconds, a service after its own deadline, a job never.",
    kind: "choice",
    choices: [
      { value: "person", label: "A person" },
      { value: "service", label: "Another service" },
      { value: "job", label: "Nobody: a job or a queue" },
    ],
    fallback: "service",
  },
  {
    id: "outageMs",
    text: "What is the longest outage it should survive, in milliseconds?",
    help: "A restart takes 1 s, a failover 8 s, a bad deployment 10 minutes.",
    kind: "number",
    choices: [
      { value: 1000, label: "1 s: a restart" },
      { value: 8000, label: "8 s: a failover" },
      { value: 60_000, label: "1 min" },
      { value: 600_000, label: "10 min: a bad deployment" },
      { value: 7_200_000, label: "2 h" },
    ],
    min: 0,
    max: 86_400_000,
    fallback: 8000,
  },
  {
    id: "tiers",
    text: "How many layers on the way could retry, this one included?",
    help: "Client library, gateway, mesh, service: each that retries multiplies the load.",
    kind: "number",
    choices: [
      { value: 1, label: "1" },
      { value: 2, label: "2" },
      { value: 4, label: "4" },
    ],
    min: 1,
    max: 8,
    fallback: 1,
  },
  {
    id: "shards",
    text: "Of how many parts that fail by themselves is the dependency made?",
    help: "Shards, partitions, tenants. One breaker for all would cut off the healthy ones.",
    kind: "number",
    choices: [
      { value: 1, label: "1" },
      { value: 3, label: "3" },
    ],
    min: 1,
    max: 1000,
    fallback: 1,
  },
];

/** Where no error is worth repeating, nothing else matters. */
const NOT_TRANSIENT = { id: "transient", value: false } as const;

export const questions: readonly Question[] = [
  ...USUAL_QUESTIONS.map((asked): Question => ({ ...asked, from: "usual" })),
  ...REDRIVE_QUESTIONS.map((asked): Question => ({ ...asked, from: "redrive" })),
].map((question) =>
  question.id === NOT_TRANSIENT.id ? question : { ...question, skipIf: NOT_TRANSIENT },
);
