/**
 * TLS rows: rows 33 and 34 of the table of hostile responses. The service trusts the authority of the
 * certificates, so each is refused for its own fault.
 */
import type { TlsOptions } from "node:tls";
import {
  type Certificate,
  makeCertificate,
} from "../../faces/service/src/deliver/certificate.testing.ts";
import { type HostileRow, hostile, SUCCEEDED } from "./hostile-row.ts";

const DAY_MS = 86_400_000;

/** `now`: the certificates are made for this instant. */
export function tlsRows(authority: Certificate, now: number): readonly HostileRow[] {
  const name = "target.example";
  const good = makeCertificate({ name, issuer: authority });
  const expired = makeCertificate({
    name,
    issuer: authority,
    notBefore: new Date(now - 10 * DAY_MS),
    notAfter: new Date(now - DAY_MS),
  });
  const old: TlsOptions = {
    ...good,
    minVersion: "TLSv1",
    maxVersion: "TLSv1.1",
    ciphers: "DEFAULT:@SECLEVEL=0",
  };
  const refused = (row: number, does: string, tls: TlsOptions, text: string): HostileRow =>
    hostile(row, does, "", "error tls, EXHAUSTED not-retryable", {
      server: { tls },
      host: name,
      facts: ({ attempt, requests }) => [
        attempt?.errorMessage?.includes(text) || attempt?.errorMessage,
        requests.length,
      ],
      expectedFacts: [true, 0],
    });
  return [
    hostile(33, "has a good certificate", "", `success 200, ${SUCCEEDED}`, {
      server: { tls: good },
      host: name,
      task: { path: "/honest" },
    }),
    refused(33, "has an expired certificate", expired, "CERT_HAS_EXPIRED"),
    refused(
      33,
      "signed its certificate itself",
      makeCertificate({ name }),
      "DEPTH_ZERO_SELF_SIGNED",
    ),
    refused(
      33,
      "has the certificate of another name",
      makeCertificate({ name: "other.example", issuer: authority }),
      "ERR_TLS_CERT_ALTNAME_INVALID",
    ),
    refused(33, "supports TLS 1.0 and 1.1 only", old, ""),
    refused(
      34,
      "offers HTTP/2 only",
      { ...good, ALPNProtocols: ["h2"] },
      "does not offer HTTP/1.1",
    ),
  ];
}
