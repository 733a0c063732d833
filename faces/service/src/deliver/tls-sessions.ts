/**
 * TLS sessions: cached sessions that let the next connection to a target skip half of its
 * handshake. The cache is bounded, because callers choose the targets.
 */

/** Entries; a session is about 2 KiB. */
const MAX_SESSIONS = 256;

export interface TlsSessions {
  get(key: string): Buffer | undefined;
  /** Stores the latest session of a key and evicts the oldest key if the cache is full. */
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
