/**
 * Certificates for tests, generated at run time: the repository contains no key, and no certificate
 * expires. Node reads X.509 but does not write it, so the required structures are written in DER
 * here.
 */
import { generateKeyPairSync, type KeyObject, randomInt, sign } from "node:crypto";

export interface CertificateOptions {
  /** The name of the certificate, also its subject. */
  readonly name: string;
  /** The signer; self-signed if absent. */
  readonly issuer?: Certificate;
  /** Default: a day ago. */
  readonly notBefore?: Date;
  /** Default: in a day. */
  readonly notAfter?: Date;
}

export interface Certificate {
  readonly name: string;
  readonly key: string;
  readonly cert: string;
  readonly privateKey: KeyObject;
}

const DAY_MS = 86_400_000;

export function makeCertificate(options: CertificateOptions): Certificate {
  const { name, issuer } = options;
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = publicKey.export({ type: "spki", format: "der" });
  const body = toBeSigned(options, issuer?.name ?? name, spki);
  const signature = sign("sha256", body, issuer?.privateKey ?? privateKey);
  const der = sequence(body, ECDSA_WITH_SHA256, tagged(0x03, Buffer.of(0), signature));
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { name, key, cert: pem(der), privateKey };
}

function toBeSigned(options: CertificateOptions, issuer: string, spki: Buffer): Buffer {
  const now = Date.now();
  const { name, notBefore = new Date(now - DAY_MS), notAfter = new Date(now + DAY_MS) } = options;
  return sequence(
    tagged(0xa0, integer(2)), // version 3
    integer(randomInt(1, 1_000_000_000)),
    ECDSA_WITH_SHA256,
    distinguished(issuer),
    sequence(utcTime(notBefore), utcTime(notAfter)),
    distinguished(name),
    spki,
    tagged(0xa3, sequence(alternativeName(name), basicConstraints(options.issuer === undefined))),
  );
}

/** Tag, length and content: all of DER. */
function tagged(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const size = length < 128 ? [length] : minimal(length);
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function minimal(length: number): number[] {
  return length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
}

function sequence(...contents: readonly Buffer[]): Buffer {
  return tagged(0x30, ...contents);
}

function integer(value: number): Buffer {
  const hex = value.toString(16);
  const even = hex.length % 2 === 0 ? hex : `0${hex}`;
  const bytes = Buffer.from(even, "hex");
  return tagged(0x02, (bytes[0] ?? 0) > 127 ? Buffer.concat([Buffer.of(0), bytes]) : bytes);
}

function oid(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, "hex"));
}

function utcTime(date: Date): Buffer {
  const digits = date.toISOString().replace(/\D/g, "").slice(2, 14);
  return tagged(0x17, Buffer.from(`${digits}Z`));
}

function distinguished(name: string): Buffer {
  const commonName = sequence(oid("550403"), tagged(0x0c, Buffer.from(name)));
  return sequence(tagged(0x31, commonName));
}

function alternativeName(name: string): Buffer {
  return sequence(oid("551d11"), tagged(0x04, sequence(tagged(0x82, Buffer.from(name)))));
}

function basicConstraints(isAuthority: boolean): Buffer {
  const content = isAuthority ? [tagged(0x01, Buffer.of(255))] : [];
  return sequence(oid("551d13"), tagged(0x04, sequence(...content)));
}

const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"));

function pem(der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}
