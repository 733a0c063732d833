/** Partition scripts: what scripts do in one partition besides commits. Their key is its base. */
import { RAISE_FUNCTIONS } from "./commit-script.ts";
import { script } from "./script.ts";
import { TASK_FUNCTIONS } from "./task-script.ts";

/** Raises versions of destination rows in all given partitions: `[[destination, version], ...]`. */
export const RAISE_VERSIONS = script(
  RAISE_FUNCTIONS,
  `
raiseAll(cmsgpack.unpack(ARGV[1]))
return 1
`,
);

/** How much of `SWEEP` there is to do: `now`, `endedBefore`, `deadBefore`. */
export const COUNT_EXPIRED = script(`
local base = KEYS[1]
return redis.call('ZCOUNT', base .. ':en', '-inf', '(' .. ARGV[2])
  + redis.call('ZCOUNT', base .. ':ex', '-inf', '(' .. ARGV[3])
  + redis.call('ZCOUNT', base .. ':ke', '-inf', ARGV[1])
`);

/** Removes tasks, then keys, at most `limit`: `now`, `endedBefore`, `deadBefore`, `limit`. */
export const SWEEP = script(
  TASK_FUNCTIONS,
  `
local base, limit, removed = KEYS[1], tonumber(ARGV[4]), 0

local function removeEnded(key, before)
  local tasks = call('ZRANGEBYSCORE', key, '-inf', '(' .. before, 'LIMIT', 0, limit - removed)
  for _, task in ipairs(tasks) do
    local tenant, id = string.match(task, '^([^\\n]*)\\n(.*)$')
    remove(base, tenant, id, find(base, task))
    removed = removed + 1
  end
end

removeEnded(base .. ':en', ARGV[2])
removeEnded(base .. ':ex', ARGV[3])
local keys = call('ZRANGEBYSCORE', base .. ':ke', '-inf', ARGV[1], 'LIMIT', 0, limit - removed)
for _, key in ipairs(keys) do
  call('HDEL', base .. ':k', key)
  call('ZREM', base .. ':ke', key)
end
flush()
return removed + #keys
`,
);

/** Removes the dead letters among the tasks of a tenant: the tenant, then the ids. */
export const DISCARD = script(
  TASK_FUNCTIONS,
  `
local base, tenant, removed = KEYS[1], ARGV[1], 0
for at = 2, #ARGV do
  local state = find(base, tenant .. '\\n' .. ARGV[at])
  if state and state[1] == EXHAUSTED then
    remove(base, tenant, ARGV[at], state)
    removed = removed + 1
  end
end
flush()
return removed
`,
);

/**
 * Lanes that are due before an instant, after a position: `before`, `limit`, and the due time and name
 * of the lane before. Between two calls lanes move, so the position is found by comparing.
 */
export const DUE_LANES = script(`
local key, before, limit = KEYS[1] .. ':lanes', ARGV[1], tonumber(ARGV[2])
local first = 0
if ARGV[3] then
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[3])
  local high = redis.call('ZCOUNT', key, '-inf', ARGV[3])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] <= ARGV[4] then
      low = middle + 1
    else
      high = middle
    end
  end
  first = low
end
return redis.call('ZRANGEBYSCORE', key, '-inf', '(' .. before, 'WITHSCORES', 'LIMIT', first, limit)
`);

/** The first hints of a partition: the lanes, their numbers and due times. */
export const HINTS = script(`
local base = KEYS[1]
local hints = redis.call('ZRANGE', base .. ':hz', 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
for at = 1, #hints, 2 do
  hints[#hints + 1] = redis.call('HGET', base .. ':hd', hints[at])
end
return hints
`);

/** Removes hints, unless a newer one has replaced them: pairs of a lane and its number. */
export const REMOVE_HINTS = script(`
local base = KEYS[1]
for at = 1, #ARGV, 2 do
  if redis.call('ZSCORE', base .. ':hz', ARGV[at]) == ARGV[at + 1] then
    redis.call('ZREM', base .. ':hz', ARGV[at])
    redis.call('HDEL', base .. ':hd', ARGV[at])
  end
end
return 1
`);

/** The counts by status and the first due time of destinations: the tenant, then the names. */
export const DESTINATIONS = script(`
local base, tenant, results = KEYS[1], ARGV[1], {}
for at = 2, #ARGV do
  local name, due = ARGV[at], false
  local fields = {}
  for status = 0, 4 do fields[status + 1] = name .. '\\n' .. status end
  local counts = redis.call('HMGET', base .. ':c:' .. tenant, unpack(fields))
  for lane = 0, 2 do
    local key = base .. ':d:' .. tenant .. '\\n' .. name .. '\\n' .. lane
    local first = counts[1] and redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first and (not due or tonumber(first) < due) then due = tonumber(first) end
  end
  local numbers = {}
  for status = 1, 5 do numbers[status] = tonumber(counts[status] or 0) end
  numbers[6] = due
  results[at - 1] = numbers
end
return cmsgpack.pack(results)
`);

/** Which of the destinations have tasks: the tenant and the name of each, in turns. */
export const HAVE_TASKS = script(`
local found = {}
for at = 1, #ARGV, 2 do
  found[#found + 1] = redis.call('HEXISTS', KEYS[1] .. ':dt:' .. ARGV[at], ARGV[at + 1])
end
return found
`);
