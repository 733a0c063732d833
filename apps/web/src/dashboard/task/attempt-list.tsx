/** Attempt list: each attempt with its times, its response and what it waited for before. */
import { formatDuration, formatInteger, statusText } from "@redrive/core";
import { causeLabel } from "../parts/causes.ts";
import { roundDuration } from "../parts/round-duration.ts";
import { When } from "../parts/times.tsx";
import { visibleText } from "../parts/visible-text.ts";
import type { AttemptView } from "../service/client.ts";

export function AttemptList({ attempts }: { readonly attempts: readonly AttemptView[] }) {
  if (attempts.length === 0) return <p class="faint">No attempt has ended yet.</p>;
  return (
    <ol class="attempts" reversed>
      {attempts.toReversed().map((attempt, index) => (
        <li key={`${attempt.attemptNumber} ${attempt.startedAt}`}>
          <details open={index === 0}>
            <Summary attempt={attempt} />
            <AttemptDetails attempt={attempt} />
          </details>
        </li>
      ))}
    </ol>
  );
}

function Summary({ attempt }: { readonly attempt: AttemptView }) {
  const { attemptNumber, responseStatus, errorClass, outcome, durationMs, startedAt } = attempt;
  const result = responseStatus === null ? (errorClass ?? outcome) : statusText(responseStatus);
  return (
    <summary>
      <strong>Attempt {formatInteger(attemptNumber)}</strong>{" "}
      <span class={outcome === "success" ? "status good" : "status bad"}>{result}</span> after{" "}
      {formatDuration(durationMs)}, <When at={startedAt} />
    </summary>
  );
}

function AttemptDetails({ attempt }: { readonly attempt: AttemptView }) {
  const { errorMessage, responseHeaders, responseBody, responseBodyBase64, waits } = attempt;
  const { phases, nextDelayMs, delaySource } = attempt;
  const times =
    phases === null
      ? []
      : ([
          ["DNS", phases.dnsMs],
          ["connect", phases.connectMs],
          ["TLS", phases.tlsMs],
          ["first byte", phases.firstByteMs],
        ] as const);
  const known = times.filter(([, ms]) => ms !== null);
  return (
    <div class="attempt-details">
      {errorMessage !== null && <p class="problem">{visibleText(errorMessage)}</p>}
      {waits.length > 0 && (
        <p>
          Waited before:{" "}
          {waitSums(waits)
            .map(([cause, ms]) => `${roundDuration(ms)} (${causeLabel(cause)})`)
            .join(", ")}
          .
        </p>
      )}
      {known.length > 0 && (
        <p>
          Times:{" "}
          {known.map(([name, ms]) => `${name} ${formatDuration(Math.round(ms ?? 0))}`).join(", ")}.
        </p>
      )}
      {nextDelayMs !== null && (
        <p>
          Next delay: {formatDuration(nextDelayMs)} ({causeLabel(delaySource ?? "policy")}).
        </p>
      )}
      {responseHeaders !== null && (
        <HeaderTable headers={responseHeaders} title="Response headers" />
      )}
      <BodyText title="Response body" text={responseBody} base64={responseBodyBase64} />
    </div>
  );
}

/** Guards often take turns, so each cause is named once, in the order of its first wait. */
function waitSums(waits: AttemptView["waits"]): readonly (readonly [string, number])[] {
  const sums = new Map<string, number>();
  for (const { cause, durationMs } of waits) sums.set(cause, (sums.get(cause) ?? 0) + durationMs);
  return [...sums];
}

interface HeaderTableProps {
  readonly headers: Readonly<Record<string, string>>;
  readonly title: string;
}

export function HeaderTable({ headers, title }: HeaderTableProps) {
  const entries = Object.entries(headers);
  if (entries.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <dl class="facts">
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{visibleText(value)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

interface BodyTextProps {
  readonly title: string;
  readonly text: string | undefined;
  readonly base64: string | undefined;
}

/** Raw text: parsing and printing JSON would change large numbers. */
export function BodyText({ title, text, base64 }: BodyTextProps) {
  const shown = text ?? base64;
  if (shown === undefined || shown === "") return null;
  const bytes =
    text === undefined ? Math.floor((shown.length * 3) / 4) : new TextEncoder().encode(text).length;
  return (
    <>
      <h3>
        {title}{" "}
        <small class="faint">
          {formatInteger(bytes)} bytes{text === undefined ? ", in Base64" : ""}
        </small>
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by key. */}
      <pre class="raw" tabIndex={0}>
        {visibleText(shown)}
      </pre>
    </>
  );
}
