/**
 * TLS sessions: what lets the next connection to a target skip half of its handshake. Bounded,
 * because targets are the callers' to choose.
 */

/** Entries; a session is about 2 KiB. */
const MAX_SESSIONS = 256;

export interface TlsSessions {
  get(key: string): Buffer | undefined;
  /** Keeps the latest session of a key, in place of the oldest one of all if there is no room. */
  set(key: string, session: Buffer): void;
}

export function createTlsSessions(): TlsSessions {
  const sessions = new Map<string, Buffer>();
  return {
    get: (key) => sessions.get(key),
    set: (key, session) => {
      sessions.delete(key);
      sessions.set(key, session);
      const [oldest] = sessions.keys();
      if (sessions.size > MAX_SESSIONS && oldest !== undefined) sessions.delete(oldest);
    },
  };
}
