/** Tests of who may be called in which mode. */
import { describe, expect, it } from "vitest";
import { parseAllowlist } from "./allowlist.ts";
import { checkTarget } from "./target.ts";
import {
  createTargetPolicy,
  mayReach,
  type TargetPolicy,
  type TargetPolicyOptions,
} from "./target-policy.ts";

function verdict(url: string, policy: TargetPolicy): string {
  const checked = checkTarget(url, policy);
  return checked.ok ? "allowed" : checked.kind;
}

const allowing = (list: string, options: TargetPolicyOptions = {}) =>
  createTargetPolicy({ ...options, allow: parseAllowlist(list) });

describe("this service's own address", () => {
  it("is denied on every interface when it listens on all", () => {
    const own = [{ address: "0.0.0.0", port: 7337 }];
    const policy = allowing("0.0.0.0/0, ::/0, self.example", {
      own,
      machine: ["8.8.4.4", "10.0.0.9"],
    });
    for (const address of ["8.8.4.4", "10.0.0.9", "127.0.0.1", "0.0.0.0", "::1", "::"]) {
      expect(mayReach(policy, { address, name: "self.example", port: 7337 })).toBe(false);
    }
    expect(mayReach(policy, { address: "8.8.4.5", name: "self.example", port: 7337 })).toBe(true);
    expect(mayReach(policy, { address: "10.0.0.9", name: "self.example", port: 7338 })).toBe(true);
  });

  it("is denied only where it listens", () => {
    const own = [{ address: "10.0.0.9", port: 7337 }];
    const policy = allowing("10.0.0.0/8", { own });
    expect(mayReach(policy, { address: "10.0.0.9", name: "a.example", port: 7337 })).toBe(false);
    expect(mayReach(policy, { address: "10.0.0.8", name: "a.example", port: 7337 })).toBe(true);
  });

  it.each([{ address: "nowhere", port: 1 }, { port: 0 }, { port: 65_536 }])(
    "must be one: %j",
    (own) => {
      expect(() => createTargetPolicy({ own: [own] })).toThrow(/must be/);
    },
  );
});

describe("the allowlist in force", () => {
  it("opens addresses, on the port it names or on all but the blocked ones", () => {
    const policy = allowing("10.0.0.0/8, 192.168.1.5:8080");
    expect(verdict("http://10.9.9.9:3000/", policy)).toBe("allowed");
    expect(verdict("http://10.9.9.9:6379/", policy)).toBe("denied");
    expect(verdict("http://192.168.1.5:8080/", policy)).toBe("allowed");
    expect(verdict("http://192.168.1.5:8081/", policy)).toBe("denied");
    expect(verdict("http://192.168.1.6:8080/", policy)).toBe("denied");
  });

  it("opens a blocked port only by naming it", () => {
    const policy = allowing("10.0.0.0/8:6379, search.example:9200");
    expect(verdict("http://10.0.0.1:6379/", policy)).toBe("allowed");
    expect(verdict("http://search.example:9200/", policy)).toBe("allowed");
    expect(verdict("http://other.example:9200/", policy)).toBe("denied");
    // Which address a name has is known at connect, where the rule for the block decides.
    expect(verdict("http://cache.example:6379/", policy)).toBe("allowed");
    expect(mayReach(policy, { address: "10.0.0.1", name: "cache.example", port: 6379 })).toBe(true);
    expect(mayReach(policy, { address: "8.8.8.8", name: "cache.example", port: 6379 })).toBe(false);
  });

  it("opens a name, wherever it points but to metadata", () => {
    const policy = allowing("redis, db.internal:8080");
    expect(verdict("http://redis/", policy)).toBe("allowed");
    expect(verdict("http://REDIS./", policy)).toBe("allowed");
    expect(verdict("http://db.internal:8080/", policy)).toBe("allowed");
    expect(verdict("http://db.internal/", policy)).toBe("denied");
    expect(mayReach(policy, { address: "10.0.0.1", name: "redis", port: 80 })).toBe(true);
    expect(mayReach(policy, { address: "10.0.0.1", name: "other", port: 80 })).toBe(false);
    expect(mayReach(policy, { address: "169.254.169.254", name: "redis", port: 80 })).toBe(false);
  });

  it("opens metadata only address by address", () => {
    const wide = allowing("169.254.0.0/16, 0.0.0.0/0, fd00::/8, metadata.google.internal");
    const exact = allowing("169.254.169.254, [fd00:ec2::254]:80");
    for (const host of ["169.254.169.254", "168.63.129.16", "[fd00:ec2::254]"]) {
      expect([host, verdict(`http://${host}/`, wide)]).toEqual([host, "denied"]);
    }
    expect(verdict("http://169.254.169.254/", exact)).toBe("allowed");
    expect(verdict("http://[fd00:ec2::254]/", exact)).toBe("allowed");
    expect(verdict("http://169.254.169.253/", exact)).toBe("denied");
  });
});
