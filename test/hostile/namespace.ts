/**
 * Namespace: a network of its own, with these addresses on its loopback device and its own name server.
 * It needs root, or user namespaces that may create networks.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Sets up the network and the name server, and runs the rest of the arguments. */
const STEPS = 'ip -batch "$1" && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"';
const UNSHARE = ["--net", "--mount"];
const AS_USER = ["--user", "--map-root-user", ...UNSHARE];

/** Two addresses are enough to see whether both families work. */
const PROBED = ["93.184.216.34", "2606:4700:4700::1111"];

/** How a namespace can be created here; undefined: not at all. `folder`: for files. */
export function namespaceArguments(folder: string): readonly string[] | undefined {
  return [UNSHARE, AS_USER].find((args) => {
    try {
      const steps = commandIn(args, { folder, addresses: PROBED, command: ["true"] });
      execFileSync("unshare", steps, { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  });
}

export interface NamespaceOptions {
  /** A folder for files. */
  readonly folder: string;
  readonly addresses: readonly string[];
  /** The program and its arguments. */
  readonly command: readonly string[];
}

/** Runs a command there. Throws if it fails, with what it printed. */
export async function runInNamespace(
  args: readonly string[],
  options: NamespaceOptions,
): Promise<void> {
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const child = spawn("unshare", commandIn(args, options), { stdio: [...stdio] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
  }
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`it ended with ${code}:\n${printed}`);
}

function commandIn(
  args: readonly string[],
  { folder, addresses, command }: NamespaceOptions,
): readonly string[] {
  const resolvConf = join(folder, "resolv.conf");
  const batch = join(folder, "addresses");
  writeFileSync(resolvConf, "nameserver 127.0.0.1\n");
  const lines = addresses.map(
    (address) => `addr add ${address}/${address.includes(":") ? "128 nodad" : "32"} dev lo`,
  );
  writeFileSync(batch, ["link set lo up", ...lines, ""].join("\n"));
  return [...args, "sh", "-ec", STEPS, "sh", batch, resolvConf, ...command];
}
