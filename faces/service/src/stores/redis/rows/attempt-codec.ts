/**
 * Attempt codec: the stored form of the log of one attempt: the number of bytes of its fields, the
 * fields, and the body of the response. Only clients read it.
 */
import {
  type AttemptLog,
  type AttemptPhases,
  type Headers,
  readWaits,
  waitsText,
} from "../../../model/task.ts";
import { pack, type Unpacked, unpackList } from "./message-pack.ts";

const SIZE_BYTES = 4;

export function packAttempt(log: AttemptLog): Buffer {
  const { phases, responseHeaders, responseBody } = log;
  const fields = pack([
    log.attemptNumber,
    log.startedAt,
    log.durationMs,
    phases && [phases.dnsMs, phases.connectMs, phases.tlsMs, phases.firstByteMs],
    log.outcome,
    log.responseStatus,
    log.errorClass,
    log.errorMessage,
    responseHeaders && JSON.stringify(responseHeaders),
    responseBody === null ? 0 : 1,
    log.nextDelayMs,
    log.delaySource,
    waitsText(log.waits),
  ]);
  const size = Buffer.alloc(SIZE_BYTES);
  size.writeUInt32BE(fields.length);
  return Buffer.concat([size, fields, responseBody ?? new Uint8Array()]);
}

export function attemptOf(stored: Buffer): AttemptLog {
  const bodyAt = SIZE_BYTES + stored.readUInt32BE(0);
  const cells = unpackList(stored.subarray(SIZE_BYTES, bodyAt));
  const headers = cells[8] as string | null;
  return {
    attemptNumber: cells[0] as number,
    startedAt: cells[1] as number,
    durationMs: cells[2] as number,
    phases: phasesOf(cells[3] as readonly Unpacked[] | null),
    outcome: cells[4] as string,
    responseStatus: cells[5] as number | null,
    errorClass: cells[6] as string | null,
    errorMessage: cells[7] as string | null,
    responseHeaders: headers === null ? null : (JSON.parse(headers) as Headers),
    responseBody: cells[9] === 1 ? new Uint8Array(stored.subarray(bodyAt)) : null,
    nextDelayMs: cells[10] as number | null,
    delaySource: cells[11] as string | null,
    // Older versions wrote none.
    waits: readWaits(cells[12] as string | null | undefined),
  };
}

function phasesOf(cells: readonly Unpacked[] | null): AttemptPhases | null {
  if (cells === null) return null;
  const [dnsMs, connectMs, tlsMs, firstByteMs] = cells as (number | null)[];
  return {
    dnsMs: dnsMs ?? null,
    connectMs: connectMs ?? null,
    tlsMs: tlsMs ?? null,
    firstByteMs: firstByteMs ?? null,
  };
}
