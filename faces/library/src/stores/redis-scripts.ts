/**
 * Redis scripts: the operations of the Redis store in Lua. Redis runs a script alone, so each is
 * atomic. ARGV[1] is the current instant, or empty for the clock of the server.
 */

/**
 * The time to live of a hash is a minute longer than its retention: `expiresAt` decides, and the time
 * to live only removes what is left.
 */
const HEAD = `
local now = tonumber(ARGV[1])
if now == nil then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number) return string.format('%.0f', number) end
local function keepUntil(expiresAt)
  redis.call('HSET', KEYS[1], 'expiresAt', text(expiresAt))
  redis.call('PEXPIRE', KEYS[1], text(expiresAt - now + 60000))
end
local row = redis.call('HMGET', KEYS[1], 'owner', 'expiresAt', 'fingerprint', 'takeovers', 'leaseUntil', 'result')
local isKnown = row[2] and tonumber(row[2]) > now
`;

/** For operations of the owner, ARGV[2]. */
const HELD = `${HEAD}
if not isKnown or row[1] ~= ARGV[2] then return 0 end
`;

/** ARGV: fingerprint, owner, lease, retention. */
export const CLAIM: string = `${HEAD}
local takeovers = 0
if isKnown then
  if row[6] then return { 'settled', row[3], row[6] } end
  local leftMs = tonumber(row[5]) - now
  if leftMs > 0 or row[3] ~= ARGV[2] then
    return { 'running', row[3], text(math.max(0, leftMs)) }
  end
  takeovers = tonumber(row[4]) + 1
end
local leaseUntil = now + tonumber(ARGV[4])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[2], 'owner', ARGV[3], 'takeovers', text(takeovers), 'leaseUntil', text(leaseUntil))
keepUntil(leaseUntil + tonumber(ARGV[5]))
return { 'claimed', text(takeovers) }
`;

/** ARGV: owner, lease. */
export const RENEW: string = `${HELD}
if row[6] then return 0 end
local leaseUntil = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'leaseUntil', text(leaseUntil))
keepUntil(tonumber(row[2]) + leaseUntil - tonumber(row[5]))
return 1
`;

/** ARGV: owner, result, retention. */
export const SETTLE: string = `${HELD}
redis.call('HSET', KEYS[1], 'result', ARGV[3])
keepUntil(now + tonumber(ARGV[4]))
return 1
`;

/** ARGV: owner. */
export const RELEASE: string = `${HELD}
if row[6] then return 0 end
redis.call('DEL', KEYS[1])
return 1
`;
