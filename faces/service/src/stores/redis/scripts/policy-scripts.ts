/**
 * Policy scripts: versions of policies, and their removal. The key of the first ones is that of all
 * data without a partition. There, `:pn` holds `[epoch, newest, removedUpTo, removingUntil]` of each
 * policy: versions above `removedUpTo` and up to `newest` can be used. A partition holds the first
 * three as far as it was told; of two, it believes the one with the higher epoch.
 */
import { script } from "./script.ts";

export const POLICY_FUNCTIONS = `
local control = KEYS[1]

local function nowMs()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function get(policy)
  local stored = redis.call('HGET', control .. ':pn', policy)
  return stored and cmsgpack.unpack(stored)
end

local function set(policy, entry)
  redis.call('HSET', control .. ':pn', policy, cmsgpack.pack(entry))
end

local function nextEpoch()
  return redis.call('HINCRBY', control .. ':m', 'epoch', 1)
end
`;

/** `policy`, `version`, the row, and whether it is inline. Returns 1 if the version was added. */
export const ADD_POLICY = script(
  POLICY_FUNCTIONS,
  `
local policy, version = ARGV[1], tonumber(ARGV[2])
local entry = get(policy) or { 0, 0, 0, 0 }
if entry[2] ~= version - 1 or entry[4] > nowMs() then return 0 end
set(policy, { nextEpoch(), version, entry[3], 0 })
redis.call('HSET', control .. ':pr', policy .. '\\n' .. ARGV[2], ARGV[3])
local tenant, id = string.match(policy, '^([^\\n]*)\\n(.*)$')
redis.call('ZADD', control .. ':pl:' .. tenant, 0, id)
if ARGV[4] == '1' then redis.call('ZADD', control .. ':px', 0, policy) end
return 1
`,
);

/**
 * What partitions must know of policies: `[epoch, newest, removedUpTo]` of each, false for one that
 * does not exist. A removal that has not ended is void from then on: a task is about to use the policy,
 * and nobody waits for a remover that has crashed.
 */
export const READ_POLICIES = script(
  POLICY_FUNCTIONS,
  `
local results = {}
for at, policy in ipairs(ARGV) do
  local entry = get(policy)
  if entry and entry[4] > 0 then
    entry[1], entry[4] = nextEpoch(), 0
    set(policy, entry)
  end
  results[at] = entry and { entry[1], entry[2], entry[3] }
end
return cmsgpack.pack(results)
`,
);

/** Begins a removal that must end within a time: `policy`, `ms`. Returns its epoch; 0: refused. */
export const BEGIN_REMOVAL = script(
  POLICY_FUNCTIONS,
  `
local entry = get(ARGV[1])
if not entry or entry[2] == entry[3] or entry[4] > nowMs() then return 0 end
entry[1], entry[4] = nextEpoch(), nowMs() + tonumber(ARGV[2])
set(ARGV[1], entry)
return entry[1]
`,
);

/**
 * Ends a removal: `policy`, `epoch`, the instant of the removal, or an empty text for an inline policy,
 * which is deleted. Returns 1, or 0 if it is void: it took too long, or a create needs the policy.
 */
export const END_REMOVAL = script(
  POLICY_FUNCTIONS,
  `
local policy, removedAt = ARGV[1], ARGV[3]
local entry = get(policy)
if not entry or entry[1] ~= tonumber(ARGV[2]) or entry[4] <= nowMs() then return 0 end
for version = entry[3] + 1, entry[2] do
  local field = policy .. '\\n' .. version
  if removedAt == '' then
    redis.call('HDEL', control .. ':pr', field)
  else
    local row = cmsgpack.unpack(redis.call('HGET', control .. ':pr', field))
    row[6] = tonumber(removedAt)
    redis.call('HSET', control .. ':pr', field, cmsgpack.pack(row))
  end
end
if removedAt == '' then
  local tenant, id = string.match(policy, '^([^\\n]*)\\n(.*)$')
  redis.call('HDEL', control .. ':pn', policy)
  redis.call('ZREM', control .. ':pl:' .. tenant, id)
  redis.call('ZREM', control .. ':px', policy)
else
  set(policy, { entry[1], entry[2], entry[2], 0 })
end
return 1
`,
);

/** A partition remembers a removed inline policy for this long. Longer than any call of a store. */
const TOMBSTONE_MS = 60_000;

/** In a partition: takes over an entry, unless a newer one is known: `policy`, the packed entry. */
export const TELL_POLICY = script(`
local base, policy = KEYS[1], ARGV[1]
local entry = cmsgpack.unpack(ARGV[2])
local stored = redis.call('HGET', base .. ':pol', policy)
local gone = tonumber(redis.call('GET', base .. ':pt:' .. policy) or 0)
if gone >= entry[1] or (stored and cmsgpack.unpack(stored)[1] >= entry[1]) then return 0 end
redis.call('HSET', base .. ':pol', policy, ARGV[2])
return 1
`);

/**
 * In a partition: no task uses the policy from now on: `policy`, `epoch`, and whether it is inline,
 * in which case ended tasks count, too. Returns 0, without a change, if a task uses it.
 */
export const BLOCK_POLICY = script(`
local base, policy, epoch, isInline = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
if redis.call('HEXISTS', base .. (isInline and ':pi' or ':po'), policy) == 1 then return 0 end
local stored = redis.call('HGET', base .. ':pol', policy)
local entry = stored and cmsgpack.unpack(stored) or { 0, 0, 0 }
if entry[1] >= epoch then return 1 end
if isInline then
  redis.call('SET', base .. ':pt:' .. policy, epoch, 'PX', ${TOMBSTONE_MS})
  redis.call('HDEL', base .. ':pol', policy)
else
  redis.call('HSET', base .. ':pol', policy, cmsgpack.pack({ epoch, entry[2], entry[2] }))
end
return 1
`);

/** One version, or the newest if the second argument is empty. */
export const READ_POLICY = script(
  POLICY_FUNCTIONS,
  `
local version = ARGV[2]
if version == '' then
  local entry = get(ARGV[1])
  version = entry and entry[2] or 0
end
return redis.call('HGET', control .. ':pr', ARGV[1] .. '\\n' .. version)
`,
);

/** The newest version of each policy of a tenant that was not removed. */
export const LIST_POLICIES = script(
  POLICY_FUNCTIONS,
  `
local rows, tenant = {}, ARGV[1]
for _, id in ipairs(redis.call('ZRANGE', control .. ':pl:' .. tenant, 0, -1)) do
  local policy = tenant .. '\\n' .. id
  local entry = get(policy)
  if entry[2] > entry[3] then
    rows[#rows + 1] = redis.call('HGET', control .. ':pr', policy .. '\\n' .. entry[2])
  end
end
return rows
`,
);
