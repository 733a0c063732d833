/** Intake errors: why a task is refused after its input was found valid. */
import { serviceError } from "../model/errors.ts";

export function disabled(destination: string): Error {
  const text = "the target responded 410 Gone, so its destination has disabled it";
  const repair = `POST /destinations/${encodeURIComponent(destination)}/enable sends there again`;
  return serviceError("TARGET_DISABLED", `${text}; ${repair}`);
}

/** A policy that callers remove and register all the time. */
export function policyRemoved(policyId: string): Error {
  return serviceError("UNKNOWN_POLICY", `policy ${JSON.stringify(policyId)} was removed`);
}

export function keyConflict(key: string | null): Error {
  const text = `key ${JSON.stringify(key)} was used with another payload`;
  return serviceError("IDEMPOTENCY_CONFLICT", text);
}
